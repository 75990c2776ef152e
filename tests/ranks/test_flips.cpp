// A bit that flips on one of several ranks ends the run before it is saved, and the run resumes from the last save.
#include <catch2/catch.hpp>

#include "ranks/job.h"

using namespace fp::test;

namespace {

struct FlipCase {
  std::string what;
  Layout layout;
  std::vector<std::string> settings;
  std::vector<std::string> words;  // of the message
  std::string last_saved;
};

const std::vector<FlipCase>& flip_cases() {
  static const std::vector<FlipCase> list = {
      {"weights,bit=2",
       {1, 1, 2, 0},
       {},
       {"ranks hold different values of the same state: weights of"},
       "step-00000003"},
      {"moments,bit=2", {1, 1, 2, 0}, {}, {"ranks hold different values of the same state:"}, "step-00000003"},
      {"sums,bit=30", {1, 1, 2, 2}, {}, {"is not the sum of the contributions"}, "step-00000003"},
      {"gradients,bit=20",
       {1, 1, 2, 2},
       {"--set", "train.check_repeats=1"},
       {"gave different gradients when computed again", "the results of rank 1 on "},
       "step-00000003"}};
  return list;
}

}  // namespace

TEST_CASE("a flipped bit on one rank is detected before it is saved", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("llama");
  expect_success(w.train(spec, "whole", {}));
  int number = 0;
  for (const FlipCase& c : flip_cases()) {
    const std::string name = fmt::format("flip-{}", number++);
    std::vector<std::string> more = c.settings;
    more.insert(more.end(), {"--set", "checkpoint.asynchronous=false"});
    Job job(with_fault("rank=1,step=4,kind=flip,what=" + c.what, w.train(spec, name, c.layout, more)));
    const int code = job.wait();
    CAPTURE(c.what, code, job.output());
    CHECK(code > 0);
    for (const std::string& words : c.words) CHECK(job.contains(words));
    CHECK(checkpoints(w.run_directory(name)) == std::vector<std::string>{c.last_saved});
    expect_success(w.train(spec, name, c.layout));
    CHECK(worst_loss(w.run_directory("whole"), w.run_directory(name), 12) < 1e-5);
  }
}
