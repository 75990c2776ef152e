// A run that starts from another model's weights, and what of that model it may change.
#include <catch2/catch.hpp>

#include "cli/workspace.h"

using namespace fp::test;
using Catch::Contains;

namespace {

// A run of two steps in `folder`, and the command that starts another from its weights.
struct Base {
  Workspace w;
  Outcome trained =
      run(w.train(w.spec("gpt", "fp32"), "base",
                  {"--set", "train.steps=2", "--set", "schedule.warmup_steps=0", "--set", "eval.every=0"}));

  std::vector<std::string> start(const std::string& name, const std::string& model,
                                 const std::vector<std::string>& more = {}) const {
    const auto file = w.root() / "start.yaml";
    std::ofstream(file) << fmt::format(
        "run: {{threads: 1, device: cpu}}\nmodel: {{init_from: {}{}}}\ndata: {{train: [{{path: {}}}], seq_len: 32}}\n"
        "train: {{steps: 2, global_batch: 2, micro_batch: 2}}\nprecision: {{compute: fp32}}\n"
        "schedule: {{warmup_steps: 0}}\nlogging: {{report: false}}\n",
        w.run_directory("base").string(), model, w.data().string());
    return w.train(file, name, more);
  }
};

}  // namespace

TEST_CASE("a run starts from another's weights with more ids, more positions and other dropout", "[cli]") {
  const Base base;
  CAPTURE(base.trained.output);
  REQUIRE(base.trained.code == 0);
  const Outcome o = run(base.start("more", ", vocab: 300, max_position: 40, dropout_residual: 0.3, dropout_ffn: 0.3",
                                   {"--set", "data.seq_len=40"}));
  CAPTURE(o.output);
  REQUIRE(o.code == 0);
  CHECK_THAT(o.output, Contains("model.vocab: 257 ids of ") && Contains(", and 43 new ones") &&
                           Contains("initial weights from "));
  const std::string config = slurp(base.w.run_directory("more") / "config.yaml");
  CHECK_THAT(config, Contains("vocab: 300") && Contains("max_position: 40") && Contains("hidden: 24"));
  const auto folder = base.w.root() / "exported";
  const Outcome out =
      run(fptrain({"checkpoint", "export", base.w.run_directory("more").string(), "--to", folder.string()}));
  CAPTURE(out.output);
  CHECK_THAT(out.output, Contains(": step 2, "));
  CHECK(nlohmann::json::parse(slurp(folder / "config.json")).at("vocab_size") == 300);
}

TEST_CASE("a run starts from another's weights with more tokens, but not with other ones", "[cli]") {
  const Base base;
  CAPTURE(base.trained.output);
  REQUIRE(base.trained.code == 0);
  const auto file = [&](const char* name) { return (base.w.root() / name).string(); };
  const auto data = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "data");
    const Outcome o = run(fptrain(arguments));
    INFO(o.output);
    REQUIRE(o.code == 0);
  };
  const auto start = [&](const std::string& name, const std::string& from, const std::string& changes) {
    return run(base.start(name, ", vocab: 302, init_changes: " + changes,
                          {"--set", "model.init_from=" + base.w.run_directory(from).string(), "--set",
                           "data.train=[{path: " + file(name.c_str()) + "}]"}));
  };
  const auto prepare = [&](const std::string& tokenizer, const std::string& name) {
    data({"prepare", "--documents", "line", "--tokenizer", file(tokenizer.c_str()), "--out", file(name.c_str()),
          file("text.txt")});
  };
  data({"train-tokenizer", "--vocab", "300", "--out", file("own.json"), file("text.txt")});
  data({"train-tokenizer", "--vocab", "299", "--no-chat-tokens", "--out", file("other.json"), file("text.txt")});
  data({"add-tokens", "--tokenizer", file("own.json"), "--special", "<|tool|>", "--special", "<|more|>", "--out",
        file("grown.json")});
  prepare("own.json", "own");
  prepare("grown.json", "grown");
  prepare("other.json", "other");
  REQUIRE(start("own", "base", "true").code == 0);  // "base" reads bytes
  const Outcome grown = start("grown", "own", "false"), other = start("other", "own", "false");
  CAPTURE(grown.output, other.output);
  CHECK(grown.code == 0);
  CHECK_THAT(grown.output, !Contains("tokenizer"));
  CHECK(other.code == 2);
  CHECK_THAT(other.output, Contains("its tokenizer differs from that of the data: id ") &&
                               Contains("for the model and") && Contains("model.init_changes: true"));
  const Outcome meant = start("other", "own", "true");
  CHECK(meant.code == 0);
  CHECK_THAT(meant.output, Contains("its tokenizer differs from that of the data"));
}

TEST_CASE("a run directory or checkpoint is not imported but used as it is", "[cli]") {
  const Base base;
  REQUIRE(base.trained.code == 0);
  const auto run_directory = base.w.run_directory("base");
  for (const auto& from : {run_directory, run_directory / "checkpoints"}) {
    const Outcome o =
        run(fptrain({"checkpoint", "import", "--from", from.string(), "--to", (base.w.root() / "to").string()}));
    CAPTURE(o.output);
    CHECK(o.code == 2);
    CHECK_THAT(o.output, Contains("holds checkpoints of fptrain, which need no import: name it in model.init_from"));
  }
}

TEST_CASE("a run that starts from another's weights must have its sizes, and its settings unless told", "[cli]") {
  const Base base;
  const auto refused = [&](const std::string& model, const std::string& message) {
    const Outcome o = run(base.start("x", model));
    CAPTURE(o.output);
    CHECK(o.code == 2);
    CHECK_THAT(o.output, Contains(message));
  };
  refused(", ffn: 100", "model.ffn: 100 here, 96 there");
  refused(", layers: 3", "model.layers: 3 here, 2 there");
  refused(", norm_eps: 0.1", "model.norm_eps: 0.1 here, 1e-05 there");
  CHECK(run(base.start("y", ", norm_eps: 0.1, init_changes: true")).code == 0);
  const Outcome missing = run(base.start("z", ", preset: gpt-nano, layers: 2, hidden: 24, heads: 3",
                                         {"--set", "model.init_from=" + (base.w.root() / "none").string()}));
  CAPTURE(missing.output);
  CHECK(missing.code == 3);
  CHECK_THAT(missing.output, Contains("model.init_from: ") && Contains("none: no such folder"));
}
