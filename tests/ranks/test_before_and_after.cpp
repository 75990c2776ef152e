// Ranks that hang outside of steps: while rank 0 plans, or after the last step.
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>

#include "base/stopwatch.h"
#include "ranks/job.h"

using namespace fp::test;

namespace {

// Returns a limit that no healthy set-up reaches on this machine under its current load.
std::string seconds_of(const std::vector<std::string>& healthy_run) {
  const auto begin = std::chrono::steady_clock::now();
  expect_success(healthy_run);
  return fmt::format("{:.1f}", std::max(4.0, 4 * fp::seconds_since(begin)));
}

}  // namespace

TEST_CASE("a rank that is stopped while it plans for all ranks ends the run", "[ranks]") {
  const RanksWorkspace w;
  const std::vector<std::string> planned = {"--set", "parallel.auto=[all]",    "--set", "parallel.data=2",
                                            "--set", "parallel.cluster=laptop"};
  const auto command = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> a = {"train", w.spec("llama").string(), "--set",
                                  "run.directory=" + w.run_directory(name).string()};
    for (const auto& some : {planned, more}) a.insert(a.end(), some.begin(), some.end());
    return mpirun(2, a);
  };
  const std::string limit = seconds_of(command("healthy", {}));
  Job job(
      with_fault("rank=0,step=0,phase=planning,kind=stop", command("stopped", {"--set", "watchdog.setup_s=" + limit})));
  const int code = job.wait();
  CAPTURE(job.output());
  CHECK(code == 76);
  CHECK(job.contains("rank 0 (host "));
  CHECK(job.contains("is gone: silent for "));
  CHECK(job.processes().empty());
}

TEST_CASE("a rank stopped in MPI_Finalize ends the run, and all work is saved", "[ranks]") {
  const RanksWorkspace w;
  const auto command = [&](const std::string& name, int stopped, const std::string& at, int steps) {
    std::vector<std::string> c = w.train(w.spec("llama"), name, {.data = 2},
                                         {"--set", "watchdog.farewell_s=3", "--set", "watchdog.heartbeat_s=0.25",
                                          "--set", fmt::format("train.steps={}", steps)});
    const auto program = std::find(c.begin(), c.end(), FP_EXECUTABLE);
    c.insert(program, {"/usr/bin/env", std::string("LD_PRELOAD=") + FP_STOP_IN_FINALIZE,
                       fmt::format("FP_STOP_RANK={}", stopped), "FP_STOP_AT=" + at});
    return c;
  };
  Job interrupted(command("interrupted", 1, "begin", 1000000));
  interrupted.wait_for("step 3/");
  interrupted.signal(SIGUSR1);
  const int code = interrupted.wait();
  CAPTURE(interrupted.output());
  CHECK(code == 76);
  CHECK(interrupted.contains("state saved after step"));
  CHECK(interrupted.contains("phase farewell"));
  CHECK(interrupted.processes().empty());

  for (const auto& [stopped, at] : {std::pair{1, "begin"}, {1, "end"}, {0, "begin"}, {0, "end"}}) {
    const std::string name = fmt::format("finished-{}-{}", stopped, at);
    Job finished(command(name, stopped, at, 12));
    CHECK(finished.wait() == 76);
    CAPTURE(finished.output());
    CHECK(finished.contains("done: 12 steps"));
    CHECK(finished.contains(fmt::format("rank {} (host ", stopped)));
    CHECK(finished.processes().empty());
    CHECK(checkpoints(w.run_directory(name)).back() == "step-00000012");
  }
}
