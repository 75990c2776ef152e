// Pipelines over MPI, started as a user starts them: losses and parameters equal those of one rank, runs resume with
// other pipelines, and failures and non-finite values in the middle of one are detected.
#include <catch2/catch.hpp>

#include "ranks/job.h"
#include "ranks/outcome.h"

using namespace fp;
using namespace fp::test;

namespace {

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

TEST_CASE("mpirun with pipelines trains like one rank", "[ranks]") {
  const auto [family, first] = GENERATE(table<std::string, size_t>({{"gpt", 0}, {"llama", 1}, {"phi3", 2}}));
  check_layouts(family, pipeline_layouts(), 2 * first, 6, kPipelineRun, kPipelineSteps);
}

TEST_CASE("mpirun with pipelines trains every family like one rank", "[ranks][nightly]") {
  check_layouts(GENERATE("gpt", "llama", "phi3"), pipeline_layouts(), 0, 1, kPipelineRun, kPipelineSteps);
}

TEST_CASE("a run resumes with another pipeline", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("gpt");
  expect_success(w.train(spec, "one", {}, kPipelineRun));
  expect_success(w.train(spec, "saved", piped(4, "bitpipe", {1, 1, 2, 1}), kPipelineRun));
  const std::string saved = (w.run_directory("saved") / "checkpoints" / "step-00000010").string();
  for (const Layout& layout : {Layout{}, piped(2, "zb-v"), piped(4, "1f1b", {2, 1, 1, 0}), Layout{1, 1, 2, 3},
                               piped(2, "chimera", {1, 2, 1, 2})}) {
    INFO(layout.text());
    const std::string name = "resumed-" + layout.text();
    std::vector<std::string> more = kPipelineRun;
    more.insert(more.end(), {"--resume", saved});
    expect_success(w.train(spec, name, layout, more));
    check_like_one(w, name, kPipelineSteps);
  }
}

TEST_CASE("a failure in one stage ends all stages", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("llama");
  const Layout layout = piped(4, "zb-h1", {1, 1, 2, 1});
  struct Case {
    std::string fault, words;
    int code;
  };
  // When a rank is killed, mpirun kills the others and may lose what they print.
  for (const Case& c : {Case{"rank=5,step=5,phase=step,kind=kill", "", 0},
                        Case{"rank=2,step=5,phase=step,kind=throw", "fault injected by FPTRAIN_FAULT: throw", 3},
                        Case{"rank=6,step=5,phase=step,kind=sleep", "Suspect: rank 6 (host ", 0}}) {
    INFO(c.fault);
    std::vector<std::string> more = kPipelineRun;
    if (c.fault.ends_with("sleep")) {
      expect_success(w.train(spec, "healthy", layout, kPipelineRun));
      const auto limits = short_watchdog(w.run_directory("healthy"), {"step"});
      more.insert(more.end(), limits.begin(), limits.end());
    }
    Job job(with_fault(c.fault, w.train(spec, "faulty-" + c.fault, layout, more)));
    const int ended = job.wait();
    CAPTURE(job.output());
    CHECK(ended > 0);
    if (c.code > 0) CHECK(ended == c.code);
    CHECK(job.processes().empty());
    if (!c.words.empty()) CHECK(job.contains(c.words));
  }
}

TEST_CASE("non-finite values are detected in every stage", "[ranks]") {
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
