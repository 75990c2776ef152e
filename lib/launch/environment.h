// How this process was started: alone, by mpirun or by srun, as its environment says before MPI_Init.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace fp {

enum class Launcher { alone, mpirun, srun };

struct LaunchEnvironment {
  Launcher launcher = Launcher::alone;
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // among the ranks of this host
  bool operator==(const LaunchEnvironment&) const = default;
};

// The value of a variable; nothing when it is not set.
using Variables = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> process_variable(const char* name);

// mpirun's own variables win: it may run inside a batch job, and starts its daemons with srun. The shell of a batch
// script or of salloc is `alone`, although Slurm describes the whole job there. ConfigError for values that contradict
// each other.
LaunchEnvironment read_environment(const Variables& variable = process_variable);

// Before MPI_Init: ConfigError, which tells of `srun --mpi=pmix`, when srun started several tasks with nothing by which
// MPI could join them. Some MPIs abort there, some make each task a world of its own.
void check_joinable(const LaunchEnvironment&, const Variables& variable = process_variable);
// After MPI_Init: ConfigError unless the world that MPI made is the one that was started.
void check_world(const LaunchEnvironment&, int mpi_rank, int mpi_size);

}  // namespace fp
