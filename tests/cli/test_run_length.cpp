// How long a run is, and how it ends: train.tokens, train.epochs, train.max_minutes, changed settings after a resume.
#include <catch2/catch.hpp>

#include "cli/workspace.h"
#include "support/skip.h"

using namespace fp::test;
using Catch::Contains;

namespace {

nlohmann::json last_metrics(const std::filesystem::path& run_directory) {
  const std::string text = slurp(run_directory / "metrics.jsonl");
  return nlohmann::json::parse(text.substr(text.rfind('\n', text.size() - 2) + 1));
}

}  // namespace

TEST_CASE("a run, config show and plan say how many tokens and epochs a run has", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("gpt", "fp32");
  const std::string length = "20 steps x 4 x 32 = 2.56k tokens, 0.", of = " epochs of " + w.data().string();
  CHECK_THAT(run(w.train(spec, "r", {"--set", "train.steps=20"})).output, Contains(length) && Contains(of));
  CHECK_THAT(run(fptrain({"config", "show", spec.string()})).output, Contains("# " + length) && Contains(of));
  CHECK_THAT(run(fptrain({"plan", spec.string()})).output, Contains("\n" + length) && Contains(of));
  CHECK_THAT(slurp(w.run_directory("r") / "report.json"), Contains(length));
}

TEST_CASE("train.epochs instead of train.steps ends a run after so many passes over its data", "[cli]") {
  const Workspace w;
  const auto file = w.spec("gpt", "fp32");
  std::string text = slurp(file);
  text.replace(text.find("steps: 20"), std::string("steps: 20").size(), "epochs: 0.05");
  std::ofstream(file) << text;
  const Outcome shown = run(fptrain({"config", "show", file.string()}));
  CAPTURE(shown.output);
  REQUIRE(shown.code == 0);
  CHECK_THAT(shown.output, Contains("  epochs: 0\n") && Contains(", 0.05"));
  const Outcome o = run(w.train(file, "r", {"--set", "eval.every=0"}));
  CAPTURE(o.output);
  REQUIRE(o.code == 0);
  const int steps = history(w.run_directory("r")).rbegin()->first;
  CHECK_THAT(shown.output, Contains("  steps: " + std::to_string(steps) + "\n"));
  CHECK_THAT(o.output, Contains("done: " + std::to_string(steps) + " step"));
}

TEST_CASE("a run that its time limit ends is evaluated first", "[cli]") {
  const Workspace w;
  const Outcome o = run(w.train(w.spec("gpt", "fp32"), "r", {"--set", "train.max_minutes=1e-9"}));
  CAPTURE(o.output);
  REQUIRE(o.code == 0);
  CHECK_THAT(o.output, Contains("stopped after 1e-09 minutes") && Contains("1 save of") && Contains("done: 1 step,"));
  const auto last = last_metrics(w.run_directory("r"));
  CHECK(last.at("step") == 1);
  CHECK(last.contains("val_loss"));
  CHECK(last.at("mfu").is_null());  // the first step warms up
}

TEST_CASE("a resumed run says in one line which settings have changed", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("gpt", "fp32");
  REQUIRE(run(w.train(spec, "r")).code == 0);
  const std::vector<std::string> more = {"--set", "train.steps=24", "--set", "train.global_batch=8"};
  const Outcome o = run(w.train(spec, "r", more));
  CAPTURE(o.output);
  REQUIRE(o.code == 0);
  CHECK_THAT(o.output, Contains("changed since step 20: train.steps 20 -> 24, train.global_batch 4 -> 8\n"));
  CHECK_THAT(o.output, Contains("the learning rate rises from 0.0005 in step 20 to ") &&
                           Contains("a longer train.steps stretches its schedule"));
  CHECK_THAT(slurp(w.run_directory("r") / "report.json"), Contains("changed since step 20"));
  CHECK_THAT(run(w.train(spec, "r", more)).output, !Contains("changed since"));
}

TEST_CASE("more threads than cores are reported", "[cli]") {
  const Workspace w;
  const std::vector<std::string> few = {"--set", "train.steps=1", "--set", "schedule.warmup_steps=0",
                                        "--set", "eval.every=0"};
  std::vector<std::string> many = few;
  many.insert(many.end(), {"--set", "run.threads=2"});
  std::vector<std::string> command = w.train(w.spec("gpt", "fp32"), "r", many);
  command.insert(command.begin(), {"/usr/bin/taskset", "1"});
  const Outcome o = run(command);
  CAPTURE(o.output);
  if (o.output.find("taskset: ") != std::string::npos) FP_SKIP("this process may not run on core 0");
  CHECK(o.code == 0);
  CHECK_THAT(o.output, Contains("warning: run.threads = 2, but this process may use 1 core:"));
  CHECK_THAT(run(w.train(w.spec("gpt", "fp32"), "s", few)).output, !Contains("run.threads"));
}
