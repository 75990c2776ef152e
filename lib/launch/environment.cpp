#include "launch/environment.h"

#include <charconv>
#include <cstdlib>

#include "base/error.h"

namespace fp {
namespace {

// Slurm gives the steps that srun did not start (batch script, interactive shell, extern) numbers from here up.
constexpr int64_t kFirstSpecialStep = 0xfffffff0;

std::optional<int64_t> read_number(const Variables& variable, const char* name) {
  const std::optional<std::string> text = variable(name);
  if (!text) return std::nullopt;
  int64_t value = -1;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc{} || stop != end || value < 0)
    throw ConfigError(fmt::format("environment variable {}='{}' is not a whole number of 0 or more", name, *text));
  return value;
}

int need(const Variables& variable, const char* name, const char* because) {
  const std::optional<int64_t> value = read_number(variable, name);
  if (!value) throw ConfigError(fmt::format("environment variable {} is not set, although {} is", name, because));
  return static_cast<int>(*value);
}

// Returns the tasks of node `node` in Slurm's "4(x2),3": two nodes with four tasks, one with three; 0: not listed.
int tasks_on_node(const std::string& text, int64_t node) {
  const char *at = text.data(), *const end = at + text.size();
  while (at < end) {
    int tasks = 0;
    int64_t nodes = 1;
    at = std::from_chars(at, end, tasks).ptr;
    if (std::string_view(at, end).starts_with("(x")) at = std::from_chars(at + 2, end, nodes).ptr + 1;
    if (node < nodes) return tasks;
    node -= nodes;
    ++at;  // the comma
  }
  return 0;
}

LaunchEnvironment from_mpirun(const Variables& variable) {
  const char* const because = "OMPI_COMM_WORLD_SIZE";
  return {Launcher::mpirun, need(variable, "OMPI_COMM_WORLD_RANK", because), need(variable, because, because),
          need(variable, "OMPI_COMM_WORLD_LOCAL_RANK", because), need(variable, "OMPI_COMM_WORLD_LOCAL_SIZE", because)};
}

LaunchEnvironment from_srun(const Variables& variable) {
  const char* const because = "SLURM_STEP_ID";
  LaunchEnvironment e{Launcher::srun, need(variable, "SLURM_PROCID", because), need(variable, "SLURM_NTASKS", because),
                      need(variable, "SLURM_LOCALID", because), 1};
  const int64_t node = read_number(variable, "SLURM_NODEID").value_or(0);
  if (const auto tasks = variable("SLURM_STEP_TASKS_PER_NODE")) e.local_size = tasks_on_node(*tasks, node);
  return e;
}

[[noreturn]] void refuse_srun(int size) {
  throw ConfigError(fmt::format(
      "srun started {} tasks without a process manager interface that MPI could use. Start them with `srun --mpi=pmix` "
      "(`srun --mpi=list` names what this Slurm offers), or with mpirun inside the job",
      size));
}

}  // namespace

std::optional<std::string> process_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

LaunchEnvironment read_environment(const Variables& variable) {
  LaunchEnvironment e;
  const std::optional<int64_t> step = read_number(variable, "SLURM_STEP_ID");
  if (variable("OMPI_COMM_WORLD_SIZE"))
    e = from_mpirun(variable);
  else if (step && *step < kFirstSpecialStep)
    e = from_srun(variable);
  if (e.rank >= e.size || e.local_rank >= e.local_size || e.local_size > e.size)
    throw ConfigError(
        fmt::format("the environment says rank {} of {} and local rank {} of {}, which is impossible: were variables "
                    "of {} copied from "
                    "another shell?",
                    e.rank, e.size, e.local_rank, e.local_size, e.launcher == Launcher::mpirun ? "mpirun" : "srun"));
  return e;
}

void check_joinable(const LaunchEnvironment& e, const Variables& variable) {
  if (e.launcher == Launcher::srun && e.size > 1 && !variable("PMIX_RANK") && !variable("PMI_RANK"))
    refuse_srun(e.size);
}

void check_world(const LaunchEnvironment& e, int mpi_rank, int mpi_size) {
  if (e.launcher == Launcher::alone || (e.size == mpi_size && e.rank == mpi_rank)) return;
  if (mpi_size == 1 && e.launcher == Launcher::srun) refuse_srun(e.size);
  throw ConfigError(
      fmt::format("{} started {} ranks and calls this one {}, but MPI says rank {} of {}: the MPI library that fptrain "
                  "loads and the launcher are not of the same installation",
                  e.launcher == Launcher::mpirun ? "mpirun" : "srun", e.size, e.rank, mpi_rank, mpi_size));
}

}  // namespace fp
