// Pipelines over MPI as a person runs them: losses and parameters of one rank, runs that go on on other pipelines, and
// faults and non-finite numbers in the middle of one.
#include <catch2/catch.hpp>

#include "ranks/job.h"
#include "ranks/outcome.h"

using namespace fp;
using namespace fp::testing;

namespace {

constexpr int kPipelineSteps = 20;
const std::vector<std::string> kPipelineRun{"--set", "train.steps=20", "--set", "checkpoint.every=10",
                                            "--set", "model.layers=6"};

Layout piped(int ranks, const std::string& schedule, Layout beside = {}) {
  beside.pipeline = ranks;
  beside.schedule = schedule;
  return beside;
}

const std::vector<Layout>& pipeline_layouts() {
  static const std::vector<Layout> list = {piped(2, "1f1b"),
                                           piped(4, "interleaved chunks=2"),
                                           piped(2, "zb-v"),
                                           piped(4, "bitpipe w_pass=true"),
                                           piped(2, "zb-h1", {1, 1, 2, 1}),
                                           piped(2, "zeropp chunks=2", {1, 1, 2, 3}),
                                           piped(2, "interleaved-zb chunks=2", {2, 1, 1, 0, true}),
                                           piped(2, "dualpipev", {1, 2, 1, 1, false, "full"}),
                                           piped(2, "chimera", {1, 1, 2, 3}),
                                           piped(2, "dualpipe", {2, 1, 1, 0}),
                                           piped(8, "1f1b layers=[0,1,1,1,1,1,1,0]"),
                                           piped(2, "gpipe", {2, 1, 2, 2, true, "selective"}),
                                           piped(4, "bfs chunks=2", {1, 1, 2, 1}),
                                           piped(4, "zb-h2 recompute=[full,none,selective,none]"),
                                           piped(2, "wave chunks=4")};
  return list;
}

}  // namespace

TEST_CASE("mpirun trains through pipelines like one rank", "[ranks]") {
  const RanksWorkspace w;
  const std::string family = GENERATE("gpt", "llama", "phi3");
  const auto spec = w.spec(family);
  run_well(w.train(spec, "one", {}, kPipelineRun));
  int number = 0;
  for (const Layout& layout : pipeline_layouts()) {
    INFO(family << ": " << layout.text());
    const std::string name = fmt::format("many-{}", number++);
    if (family != "gpt" && number % 3 != 0) continue;  // gpt has most in common between the ends
    run_well(w.train(spec, name, layout, kPipelineRun));
    check_like_one(w, name, kPipelineSteps);
    if (number % 5 == 0) check_repeats(w, spec, name, layout, kPipelineRun);
  }
}

TEST_CASE("a run goes on through another pipeline", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("gpt");
  run_well(w.train(spec, "one", {}, kPipelineRun));
  run_well(w.train(spec, "saved", piped(4, "bitpipe", {1, 1, 2, 1}), kPipelineRun));
  const std::string saved = (w.run_directory("saved") / "checkpoints" / "step-00000010").string();
  for (const Layout& layout : {Layout{}, piped(2, "zb-v"), piped(4, "1f1b", {2, 1, 1, 0}), Layout{1, 1, 2, 3},
                               piped(2, "chimera", {1, 2, 1, 2})}) {
    INFO(layout.text());
    const std::string name = "resumed-" + layout.text();
    std::vector<std::string> more = kPipelineRun;
    more.insert(more.end(), {"--resume", saved});
    run_well(w.train(spec, name, layout, more));
    check_like_one(w, name, kPipelineSteps);
  }
}

TEST_CASE("a fault in a stage ends all stages", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("llama");
  const Layout layout = piped(4, "zb-h1", {1, 1, 2, 1});
  struct Case {
    std::string fault, words;
    int code;
  };
  for (const Case& c : {Case{"rank=5,step=5,phase=step,kind=kill", "rank 5 (host ", 0},
                        Case{"rank=2,step=5,phase=step,kind=throw", "fault injected by FPTRAIN_FAULT: throw", 3},
                        Case{"rank=6,step=5,phase=step,kind=sleep", "Odd one out: rank 6 (host ", 0}}) {
    INFO(c.fault);
    std::vector<std::string> more = kPipelineRun;
    if (c.fault.ends_with("sleep")) {
      run_well(w.train(spec, "healthy", layout, kPipelineRun));
      const auto limits = short_watchdog(w.run_directory("healthy"), {"step"});
      more.insert(more.end(), limits.begin(), limits.end());
    }
    Job job(with_fault(c.fault, w.train(spec, "faulty-" + c.fault, layout, more)));
    const int ended = job.wait();
    CAPTURE(job.output());
    CHECK(ended > 0);
    if (c.code > 0) CHECK(ended == c.code);
    CHECK(job.processes().empty());
    CHECK(job.contains(c.words));
  }
}

TEST_CASE("numbers that are not finite are found in whatever stage they arise", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("gpt");
  for (const Layout& layout : {piped(4, "zb-v"), piped(2, "bitpipe", {1, 1, 2, 3}), piped(2, "1f1b", {2, 1, 1, 0})}) {
    INFO(layout.text());
    std::vector<std::string> more = kPipelineRun;
    more.insert(more.end(), {"--set", "optimizer.lr=1e30", "--set", "schedule.warmup_steps=0"});
    Job job(w.train(spec, "diverging-" + layout.text(), layout, more));
    const int ended = job.wait();
    CAPTURE(job.output());
    CHECK(ended == 4);
    CHECK(job.contains("first non-finite tensor: "));
    CHECK(job.count("training diverged") <= 1);
  }
}
