// A run that is resumed again and again on different numbers of ranks sees the same samples as a run on one rank, and
// has the same losses.
#include <catch2/catch.hpp>

#include "checkpoint/fixture.h"
#include "ranks/job.h"
#include "ranks/outcome.h"

using namespace fp;
using namespace fp::test;
using Catch::Contains;

namespace {

constexpr int kLeg = 10;  // steps

// Heads, layers and a batch that divide by 3 and 6 ranks. The learning rate is low enough that rounding errors do not
// grow from step to step: at 5e-3 they do, even on a single mesh.
std::vector<std::string> settings(int steps, int legs) {
  std::vector<std::string> s;
  for (const std::string& set :
       {std::string("model.heads=6"), std::string("model.hidden=36"), std::string("model.layers=12"),
        std::string("model.init_std=0.1"), std::string("optimizer.lr=1e-3"), std::string("train.global_batch=12"),
        fmt::format("schedule.decay_steps={}", legs * kLeg), fmt::format("train.steps={}", steps),
        fmt::format("checkpoint.every={}", kLeg)})
    s.insert(s.end(), {"--set", set});
  return s;
}

std::vector<int64_t> consumed_samples(const std::filesystem::path& run_directory) {
  std::vector<int64_t> consumed;
  std::ifstream in(run_directory / "metrics.jsonl");
  for (std::string line; std::getline(in, line);)
    consumed.push_back(nlohmann::json::parse(line).at("consumed_samples").get<int64_t>());
  return consumed;
}

}  // namespace

TEST_CASE("a run resumed on 8, 4, 3, 1 and 6 ranks matches one on a single rank", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("llama");
  const std::vector<Layout> legs = {{2, 1, 2, 1, false, "none", 2, "1f1b layers=[5,7]"},
                                    {4, 1, 1, 0, true},  // 6 heads on 4 ranks, 2 kv heads
                                    {1, 1, 3, 3},
                                    {},
                                    {1, 1, 2, 1, false, "none", 3, "zb-h1 layers=[3,5,4]"}};
  const int steps = static_cast<int>(legs.size()) * kLeg;
  expect_success(w.train(spec, "one", {}, settings(steps, static_cast<int>(legs.size()))));
  int until = 0;
  for (const Layout& layout : legs) {
    until += kLeg;
    INFO("until step " << until << ": " << layout.text());
    expect_success(w.train(spec, "elastic", layout, settings(until, static_cast<int>(legs.size()))));
  }
  const auto one = w.run_directory("one"), elastic = w.run_directory("elastic");
  CHECK(history(elastic).size() == static_cast<size_t>(steps));
  CHECK(consumed_samples(elastic) == consumed_samples(one));
  check_like_one(w, "elastic", steps);
  // Wrong samples would show: the losses of neighbouring steps differ by far more.
  const auto losses = history(one);
  for (int step = 1; step < steps; ++step)
    CHECK(std::abs(losses.at(step + 1).first / losses.at(step).first - 1) > 1e-5);
}

TEST_CASE("ranks that load a damaged checkpoint detect it and use the previous one", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("llama");
  expect_success(w.train(spec, "one", {}, settings(3 * kLeg, 3)));
  const Layout four{2, 1, 2, 1}, three{1, 1, 3, 3};
  expect_success(w.train(spec, "elastic", four, settings(2 * kLeg, 3)));
  damage_tensors(w.run_directory("elastic") / "checkpoints" / "step-00000020", 2);
  const Outcome o = run(w.train(spec, "elastic", three, settings(3 * kLeg, 3)));
  INFO(o.output);
  REQUIRE(o.code == 0);
  CHECK_THAT(o.output, Contains("skipping a checkpoint") && Contains("rank-00002.h5: content differs") &&
                           Contains("resumed from") && Contains("step-00000010"));
  check_like_one(w, "elastic", 3 * kLeg);
}

TEST_CASE("ranks skip a checkpoint that was saved damaged, and set it aside", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("llama");
  expect_success(w.train(spec, "one", {}, settings(3 * kLeg, 3)));
  const Layout four{2, 1, 2, 1}, three{1, 1, 3, 3};
  expect_success(w.train(spec, "elastic", four, settings(2 * kLeg, 3)));
  const auto folder = w.run_directory("elastic") / "checkpoints";
  fp::test::alter_sealed(folder / "step-00000020");
  const Outcome o = run(w.train(spec, "elastic", three, settings(3 * kLeg, 3)));
  INFO(o.output);
  REQUIRE(o.code == 0);
  CHECK_THAT(o.output, Contains("these tensors differ from the saved ones") &&
                           Contains("step-00000020 was set aside as step-00000020.aside-1") &&
                           Contains("resumed from") && Contains("step-00000010"));
  CHECK(std::filesystem::exists(folder / "step-00000020.aside-1" / "manifest.json"));
  CHECK_THAT(slurp(w.run_directory("elastic") / "report.json"), Contains("was set aside"));
  check_like_one(w, "elastic", 3 * kLeg);

  // When no checkpoint is valid, nothing is moved and no fresh run begins.
  for (const char* name : {"step-00000010", "step-00000020", "step-00000030"}) fp::test::alter_sealed(folder / name);
  const Outcome none = run(w.train(spec, "elastic", four, settings(4 * kLeg, 3)));
  INFO(none.output);
  CHECK(none.code == 3);
  CHECK_THAT(none.output, Contains("none of the checkpoints here can be resumed"));
  CHECK(checkpoints(w.run_directory("elastic")) ==
        std::vector<std::string>{"step-00000010", "step-00000020", "step-00000020.aside-1", "step-00000030"});
}
