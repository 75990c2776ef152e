// Tests with the variables that Open MPI 4.1 and Slurm 22.05 gave to real processes.
#include <catch2/catch.hpp>
#include <map>

#include "base/error.h"
#include "launch/environment.h"

using namespace fp;
using Catch::Contains;

namespace {

using Set = std::map<std::string, std::string>;

Variables from(const Set& set) {
  return [set](const char* name) -> std::optional<std::string> {
    const auto found = set.find(name);
    return found == set.end() ? std::nullopt : std::optional(found->second);
  };
}

LaunchEnvironment read(const Set& set) { return read_environment(from(set)); }

Set with(Set set, const Set& more) {
  for (const auto& [name, value] : more) set[name] = value;
  return set;
}

const Set in_batch_script = {{"SLURM_JOB_ID", "1"},   {"SLURM_JOB_NUM_NODES", "1"}, {"SLURM_NTASKS", "4"},
                             {"SLURM_NPROCS", "4"},   {"SLURM_PROCID", "0"},        {"SLURM_LOCALID", "0"},
                             {"SLURM_NODEID", "0"},   {"SLURM_GTIDS", "0"},         {"SLURM_TASKS_PER_NODE", "4"},
                             {"SLURM_TASK_PID", "9"}, {"SLURM_NNODES", "1"}};
const Set srun_task_1_of_2 = with(in_batch_script, {{"SLURM_STEP_ID", "1"},
                                                    {"SLURM_STEPID", "1"},
                                                    {"SLURM_NTASKS", "2"},
                                                    {"SLURM_NPROCS", "2"},
                                                    {"SLURM_PROCID", "1"},
                                                    {"SLURM_LOCALID", "1"},
                                                    {"SLURM_GTIDS", "0,1"},
                                                    {"SLURM_STEP_NUM_TASKS", "2"},
                                                    {"SLURM_STEP_TASKS_PER_NODE", "2"},
                                                    {"SLURM_TASKS_PER_NODE", "2"}});
const Set srun_pmix_task_2_of_4 = with(srun_task_1_of_2, {{"SLURM_STEP_ID", "0"},
                                                          {"SLURM_NTASKS", "4"},
                                                          {"SLURM_PROCID", "2"},
                                                          {"SLURM_LOCALID", "2"},
                                                          {"SLURM_STEP_TASKS_PER_NODE", "4"},
                                                          {"SLURM_MPI_TYPE", "pmix"},
                                                          {"PMIX_RANK", "2"},
                                                          {"PMIX_NAMESPACE", "slurm.pmix.1.0"}});
const Set mpirun_rank_1_of_2 = {{"OMPI_COMM_WORLD_SIZE", "2"},
                                {"OMPI_COMM_WORLD_RANK", "1"},
                                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                {"OMPI_COMM_WORLD_NODE_RANK", "1"},
                                {"OMPI_UNIVERSE_SIZE", "2"},
                                {"PMIX_RANK", "1"},
                                {"PMIX_NAMESPACE", "352780289"}};

}  // namespace

TEST_CASE("a process without a launcher is alone") {
  CHECK(read({}) == LaunchEnvironment{});
  CHECK(read({{"PATH", "/bin"}, {"SLURM_CONF", "/etc/slurm.conf"}}) == LaunchEnvironment{});
}

TEST_CASE("the shell of a batch script is alone although Slurm describes the job there") {
  CHECK(read(in_batch_script) == LaunchEnvironment{});
  // salloc's shell runs in a step with a number of its own.
  CHECK(read(with(in_batch_script, {{"SLURM_STEP_ID", "4294967290"}})) == LaunchEnvironment{});
}

TEST_CASE("srun identifies a rank with and without PMIx") {
  CHECK(read(srun_task_1_of_2) == LaunchEnvironment{Launcher::srun, 1, 2, 1, 2});
  CHECK(read(srun_pmix_task_2_of_4) == LaunchEnvironment{Launcher::srun, 2, 4, 2, 4});
}

TEST_CASE("srun assigns local ranks on several nodes") {
  const auto on_node = [](const std::string& node, const std::string& task, const std::string& local) {
    return read(with(srun_task_1_of_2, {{"SLURM_NTASKS", "11"},
                                        {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"},
                                        {"SLURM_NODEID", node},
                                        {"SLURM_PROCID", task},
                                        {"SLURM_LOCALID", local}}));
  };
  CHECK(on_node("0", "0", "0") == LaunchEnvironment{Launcher::srun, 0, 11, 0, 4});
  CHECK(on_node("1", "7", "3") == LaunchEnvironment{Launcher::srun, 7, 11, 3, 4});
  CHECK(on_node("2", "8", "0") == LaunchEnvironment{Launcher::srun, 8, 11, 0, 3});
}

TEST_CASE("mpirun's variables take precedence also inside a Slurm job") {
  const LaunchEnvironment expected{Launcher::mpirun, 1, 2, 1, 2};
  CHECK(read(mpirun_rank_1_of_2) == expected);
  CHECK(read(with(in_batch_script, mpirun_rank_1_of_2)) == expected);
  CHECK(read(with(srun_pmix_task_2_of_4, mpirun_rank_1_of_2)) == expected);  // a daemon that srun started
}

TEST_CASE("contradictory variables are refused") {
  CHECK_THROWS_WITH(read({{"OMPI_COMM_WORLD_SIZE", "two"}, {"OMPI_COMM_WORLD_RANK", "0"}}),
                    Contains("OMPI_COMM_WORLD_SIZE='two'"));
  CHECK_THROWS_WITH(read({{"OMPI_COMM_WORLD_SIZE", "2"}}), Contains("OMPI_COMM_WORLD_RANK is not set"));
  CHECK_THROWS_AS(read(with(mpirun_rank_1_of_2, {{"OMPI_COMM_WORLD_RANK", "2"}})), ConfigError);
  CHECK_THROWS_AS(read(with(mpirun_rank_1_of_2, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}})), ConfigError);
  CHECK_THROWS_AS(read(with(srun_task_1_of_2, {{"SLURM_STEP_TASKS_PER_NODE", "?"}})), ConfigError);
}

TEST_CASE("srun tasks that MPI cannot join are refused before MPI starts") {
  const auto check = [](const Set& set) { check_joinable(read(set), from(set)); };
  CHECK_THROWS_AS(check(srun_task_1_of_2), ConfigError);
  CHECK_THROWS_WITH(check(srun_task_1_of_2), Contains("srun started 2 tasks") && Contains("srun --mpi=pmix"));
  CHECK_NOTHROW(check(srun_pmix_task_2_of_4));
  CHECK_NOTHROW(check(with(srun_task_1_of_2, {{"PMI_RANK", "1"}})));
  CHECK_NOTHROW(check(mpirun_rank_1_of_2));
  CHECK_NOTHROW(check(in_batch_script));
  CHECK_NOTHROW(check(with(
      srun_task_1_of_2,
      {{"SLURM_NTASKS", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "1"}})));
}

TEST_CASE("MPI's world must be the one that was launched") {
  CHECK_NOTHROW(check_world({}, 0, 1));
  CHECK_NOTHROW(check_world(read(mpirun_rank_1_of_2), 1, 2));
  CHECK_THROWS_WITH(check_world(read(srun_task_1_of_2), 0, 1),
                    Contains("srun started 2 tasks") && Contains("srun --mpi=pmix"));
  CHECK_THROWS_AS(check_world(read(srun_task_1_of_2), 0, 1), ConfigError);
  CHECK_THROWS_WITH(check_world(read(mpirun_rank_1_of_2), 0, 1), Contains("mpirun started 2 ranks"));
  CHECK_THROWS_AS(check_world(read(mpirun_rank_1_of_2), 0, 2), ConfigError);
  CHECK_NOTHROW(check_world({Launcher::srun, 0, 1, 0, 1}, 0, 1));
}
