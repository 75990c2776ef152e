// Detects how this process was started (alone, by mpirun or by srun) from its environment, before MPI_Init.
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

// Returns the value of an environment variable; nullopt when it is not set.
using Variables = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> process_variable(const char* name);

// Reads the launch environment. mpirun's variables take precedence: it may run inside a batch job, and starts its
// daemons with srun. In the shell of a batch script or of salloc the launcher is `alone`, although Slurm's variables
// describe the whole job there. Throws ConfigError for contradictory values.
LaunchEnvironment read_environment(const Variables& variable = process_variable);

// To be called before MPI_Init. Throws ConfigError, which suggests `srun --mpi=pmix`, when srun started several tasks
// without a process management interface (PMIx or PMI) by which MPI could join them. In that case some MPIs abort, and
// some give each task a world of its own.
void check_joinable(const LaunchEnvironment&, const Variables& variable = process_variable);
// To be called after MPI_Init. Throws ConfigError unless MPI's world has the size and rank that the launcher assigned.
void check_world(const LaunchEnvironment&, int mpi_rank, int mpi_size);

}  // namespace fp
