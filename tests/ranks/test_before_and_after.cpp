// Where no step is under way: a rank that stands still while rank 0 plans, or when all is done.
#include <catch2/catch.hpp>

#include "base/stopwatch.h"
#include "ranks/job.h"

using namespace fp::testing;

namespace {

// A limit that no healthy set-up of this machine, as it is now, comes near.
std::string seconds_of(const std::vector<std::string>& healthy_run) {
  const auto begin = std::chrono::steady_clock::now();
  run_well(healthy_run);
  return fmt::format("{:.1f}", std::max(4.0, 4 * fp::seconds_since(begin)));
}

}  // namespace

TEST_CASE("a rank that is stopped while it plans for all ends all", "[ranks]") {
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
  CHECK(code == 1);
  CHECK(job.contains("rank 0 (host "));
  CHECK(job.contains("is gone: silent for "));
  CHECK(job.processes().empty());
}

TEST_CASE("a rank that is stopped as it takes leave holds up nobody, and the run's code stands", "[ranks]") {
  const RanksWorkspace w;
  std::vector<std::string> command = w.train(w.spec("llama"), "run", {.data = 2}, {"--set", "watchdog.farewell_s=2"});
  const auto program = std::find(command.begin(), command.end(), FP_EXECUTABLE);
  command.insert(program, {"/usr/bin/env", std::string("LD_PRELOAD=") + FP_STOP_IN_FINALIZE});
  Job job(command);
  const int code = job.wait();
  CAPTURE(job.output());
  CHECK(code == 0);
  CHECK(job.contains("done: 12 steps"));
  CHECK(job.processes().empty());
  CHECK(checkpoints(w.run_directory("run")).back() == "step-00000012");
}
