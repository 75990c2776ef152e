// Stop signals: wherever one arrives, all ranks save after the same step and end with 75, and the run that goes on is
// bit for bit the one that was not stopped.
#include <catch2/catch.hpp>

#include "ranks/job.h"

using namespace fp::testing;

namespace {

const Layout kLayout{2, 1, 2, 2};

// Each step is the same however many are to come.
std::vector<std::string> steps(int count) {
  return {"--set", fmt::format("train.steps={}", count), "--set", "schedule.kind=constant", "--set", "eval.every=0"};
}

}  // namespace

TEST_CASE("a signal to mpirun or to one rank stops all, saved", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("llama");
  const bool to_one = GENERATE(false, true);
  CAPTURE(to_one);
  const auto directory = w.run_directory("stopped");
  Job job(w.train(spec, "stopped", kLayout, steps(100000)));
  job.wait_for("step 4/");
  if (to_one) {
    REQUIRE(job.ranks().size() == 4);
    ::kill(job.ranks()[2], SIGTERM);
  } else {
    job.signal(SIGUSR1);  // mpirun hands it on
  }
  const int code = job.wait();
  CAPTURE(job.output());
  REQUIRE(code == 75);
  CHECK(job.processes().empty());
  CHECK(job.count(to_one ? "SIGTERM received: state saved" : "SIGUSR1 received: state saved") == 1);
  run_well(fptrain({"checkpoint", "verify", directory.string()}));

  const auto last = history(directory).rbegin()->first;
  run_well(w.train(spec, "stopped", kLayout, steps(last + 4)));
  run_well(w.train(spec, "whole", kLayout, steps(last + 4)));
  CHECK(history(directory) == history(w.run_directory("whole")));
  run_well(fptrain({"checkpoint", "diff", directory.string(), w.run_directory("whole").string()}));
}
