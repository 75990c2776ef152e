// Held-out loss of a run: what is held out, the loss of each dataset of a mixture, sample text, preferences.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "cli/workspace.h"
#include "io/filesystem.h"

using namespace fp::test;
using Catch::Contains;
using fp::hash_bytes;

namespace {

class Mixture : public Workspace {
 public:
  Mixture() {
    std::ofstream text(root() / "other.txt");
    for (int i = 0; i < 300; ++i) text << "Row " << i << " holds " << i * i << " and " << i % 7 << "\n";
    text.close();
    prepare("other", {});
    prepare("nothing-held-out", {"--validation-fraction", "0"});
  }
  void prepare(const std::string& name, const std::vector<std::string>& more) const {
    std::vector<std::string> command = fptrain({"data", "prepare", "--tokenizer", "bytes", "--documents", "line",
                                                "--out", (root() / name).string(), (root() / "other.txt").string()});
    command.insert(command.end() - 1, more.begin(), more.end());
    const Outcome o = run(command);
    if (o.code != 0) throw std::runtime_error("data prepare failed: " + o.output);
  }
  std::string path(const std::string& name) const { return (root() / name).string(); }
  std::vector<std::string> both() const {
    return {"--set", fmt::format("data.train=[{{path: '{}'}}, {{path: '{}'}}]", data().string(), path("other"))};
  }
};

nlohmann::json last_metrics(const std::filesystem::path& run_directory) {
  const std::string text = slurp(run_directory / "metrics.jsonl");
  return nlohmann::json::parse(text.substr(text.rfind('\n', text.size() - 2) + 1));
}

}  // namespace

TEST_CASE("a mixture has the held-out loss of each dataset in log, metrics and eval", "[cli]") {
  const Mixture w;
  const auto spec = w.spec("gpt", "fp32");
  auto more = w.both();
  more.insert(more.end(), {"--set", "train.steps=4", "--set", "eval.samples=0"});
  const Outcome o = run(w.train(spec, "r", more));
  CAPTURE(o.output);
  REQUIRE(o.code == 0);
  CHECK_THAT(o.output, Contains(" (data ") && Contains(", other "));
  const auto last = last_metrics(w.run_directory("r"));
  const double data = last.at("val_loss.data"), other = last.at("val_loss.other"), all = last.at("val_loss");
  CHECK(last.contains("val_bits_per_byte.other"));
  CHECK(std::min(data, other) < all);
  CHECK(all < std::max(data, other));

  auto eval = fptrain({"eval", spec.string(), "--checkpoint", w.run_directory("r").string(), "--json"});
  eval.insert(eval.end(), more.begin(), more.begin() + 2);
  const Outcome e = run(eval);
  CAPTURE(e.output);
  REQUIRE(e.code == 0);
  const auto j = nlohmann::json::parse(e.output);
  CHECK(j.at("val_loss").get<double>() == Approx(all).epsilon(1e-8));
  CHECK(j.at("datasets").at("other").at("val_loss").get<double>() == Approx(other).epsilon(1e-8));
  CHECK(j.at("datasets").at("data").at("tokens").get<int>() + j.at("datasets").at("other").at("tokens").get<int>() ==
        j.at("tokens").get<int>());
  // The same folder named for validation: its held-out split alone.
  eval.insert(eval.end(), {"--set", "data.validation=" + w.path("other")});
  const auto alone = nlohmann::json::parse(run(eval).output);
  CHECK(alone.at("val_loss").get<double>() == Approx(other).epsilon(1e-8));
  CHECK_FALSE(alone.contains("datasets"));
}

// The settings of training are those of a checkpoint, but what it does not offload or recompute differs in inference.
TEST_CASE("a run with chunks and all in host memory is evaluated, and its model writes text", "[cli]") {
  const Mixture w;
  const auto spec = w.spec("llama", "fp32");
  auto more = w.both();
  for (const char* const set :
       {"train.steps=4", "eval.samples=0", "memory.recompute=full", "memory.offload.activations=host",
        "memory.offload.optimizer=host", "memory.offload.weights=host", "memory.sequence_chunk_tokens=8"})
    more.insert(more.end(), {"--set", set});
  const Outcome o = run(w.train(spec, "r", more));
  CAPTURE(o.output);
  REQUIRE(o.code == 0);
  auto eval = fptrain({"eval", spec.string(), "--checkpoint", w.run_directory("r").string(), "--json"});
  eval.insert(eval.end(), more.begin(), more.begin() + 2);
  const Outcome e = run(eval);
  CAPTURE(e.output);
  REQUIRE(e.code == 0);
  CHECK(nlohmann::json::parse(e.output).at("val_loss").get<double>() ==
        Approx(last_metrics(w.run_directory("r")).at("val_loss").get<double>()).epsilon(1e-6));
  const Outcome text =
      run(fptrain({"generate", "--checkpoint", w.run_directory("r").string(), "--prompt", "a", "--max-tokens", "3"}));
  CAPTURE(text.output);
  CHECK(text.code == 0);
}

TEST_CASE("a run offloads activations although its only layer keeps its input on the device", "[cli]") {
  const Workspace w;
  const Outcome o = run(w.train(w.spec("llama", "fp32"), "r",
                                {"--set", "train.steps=4", "--set", "model.layers=1", "--set", "memory.recompute=full",
                                 "--set", "memory.offload.activations=host"}));
  CAPTURE(o.output);
  CHECK(o.code == 0);
}

TEST_CASE("eval measures recall and the loss by position of a checkpoint", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("llama", "fp32");
  const std::vector<std::string> longer = {"--set", "data.seq_len=96", "--set", "model.max_position=96"};
  auto training = longer;
  training.insert(training.end(),
                  {"--set", "train.steps=4", "--set", "eval.by_position=true", "--set", "eval.samples=0"});
  REQUIRE(run(w.train(spec, "r", training)).code == 0);
  const std::string checkpoint = w.run_directory("r").string();
  const auto eval = [&](std::vector<std::string> more) {
    std::vector<std::string> command = fptrain({"eval", "--checkpoint", checkpoint});
    command.insert(command.end(), more.begin(), more.end());
    return run(command);
  };
  const std::string svg = (w.root() / "heat.svg").string();
  const std::vector<std::string> needle = {spec.string(), "--needle",  "--lengths", "60,96", "--depths",
                                           "0,50,100",    "--samples", "2",         "--svg", svg};
  const Outcome table = eval(needle);
  CAPTURE(table.output);
  REQUIRE(table.code == 0);
  CHECK_THAT(table.output, Contains("step 4: recall of 2 samples of each length and depth") &&
                               Contains("  length      0%     50%    100%     all\n      60"));
  CHECK_THAT(slurp(svg), Contains("length in tokens") && Contains(">96</text>"));
  auto as_json = needle;
  as_json.emplace_back("--json");
  const auto j = nlohmann::json::parse(eval(as_json).output);
  REQUIRE(j.at("needles").size() == 6);
  CHECK(j.at("needles")[4] == nlohmann::json{{"length", 96}, {"depth", 50}, {"samples", 2}, {"recall", 0}});
  CHECK(eval({"--needle", "--filler", (w.root() / "text.txt").string(), "--lengths", "64", "--samples", "1"}).code ==
        0);

  const auto refused = [&](const std::vector<std::string>& more, const std::string& message) {
    const Outcome o = eval(more);
    CAPTURE(o.output);
    CHECK(o.code == 2);
    CHECK_THAT(o.output, Contains(message));
  };
  refused({"--needle"}, "name a run spec, whose held-out text pairs are hidden in, or a --filler FILE");
  refused({spec.string(), "--needle", "--filler", "x"}, "name one of them");
  refused({spec.string(), "--needle", "--samples", "0"}, "--samples 0: recall needs samples");
  refused({spec.string(), "--needle", "--lengths", "30"}, "5 pairs and a question need 36 tokens");
  refused({spec.string(), "--svg", svg}, "add --by-position or --needle");

  auto positions = longer;
  positions.insert(positions.begin(), {spec.string(), "--by-position", "--json"});
  const auto loss = nlohmann::json::parse(eval(positions).output);
  REQUIRE(loss.at("positions").size() == 2);
  const auto trained = last_metrics(w.run_directory("r"));
  double sum = 0;
  int64_t tokens = 0;
  for (const auto& p : loss.at("positions")) {
    sum += p.at("val_loss").get<double>() * p.at("tokens").get<double>();
    tokens += p.at("tokens").get<int64_t>();
    CHECK(p.at("standard_error") > 0);
    const auto label = fmt::format("{}-{}", p.at("begin").get<int>(), p.at("end").get<int>());
    CHECK(trained.at("val_loss_at." + label).get<double>() == Approx(p.at("val_loss").get<double>()).epsilon(1e-8));
  }
  CHECK(tokens == loss.at("tokens"));
  CHECK(sum / static_cast<double>(tokens) == Approx(loss.at("val_loss").get<double>()).epsilon(1e-6));

  auto compared = positions;
  compared.insert(compared.end(), {"--set", "data.mask_documents=false", "--compare", "0-24,48-96"});
  const Outcome outcome = eval(compared);
  CAPTURE(outcome.output);
  REQUIRE(outcome.code == 0);
  const auto same_targets = nlohmann::json::parse(outcome.output);
  const auto& c = same_targets.at("comparison");
  CHECK(c.at("first").at("begin") == 0);
  CHECK(c.at("second").at("end") == 96);
  CHECK(c.at("first").at("tokens") == c.at("second").at("tokens"));
  CHECK(c.at("first").at("tokens") > tokens - 96);
  CHECK(c.at("difference").get<double>() ==
        Approx(c.at("first").at("val_loss").get<double>() - c.at("second").at("val_loss").get<double>()).margin(1e-9));
  CHECK(c.at("standard_error") > 0);
  // By default the stride is 24, which gives four times as many samples.
  compared.insert(compared.end(), {"--stride", "24"});
  CHECK(nlohmann::json::parse(eval(compared).output) == same_targets);
  compared.erase(std::ranges::find(compared, "--json"));
  CHECK_THAT(eval(compared).output,
             Contains("targets at positions 0-24 and at positions 48-96: loss ") && Contains("passages of text)"));
  compared.back() = "49";
  refused(compared, "a stride of 49 tokens is too long to compare the positions 0-24 and 48-96");
  compared.back() = "24";
  compared.insert(compared.end(), {"--set", "data.sampling=documents"});
  refused(compared, "--compare needs samples that overlap");
  compared.back() = "data.mask_documents=true";
  refused(compared, "legal: false");
  positions.insert(positions.end(), {"--stride", "97"});
  refused(positions, "a stride of 97 tokens: legal: 1 to data.seq_len = 96");
}

TEST_CASE("recall beyond learned positions is refused", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("gpt", "fp32");
  REQUIRE(run(w.train(spec, "r", {"--set", "train.steps=4"})).code == 0);
  const Outcome o = run(
      fptrain({"eval", spec.string(), "--needle", "--checkpoint", w.run_directory("r").string(), "--lengths", "64"}));
  CHECK(o.code == 2);
  CHECK_THAT(o.output, Contains("--lengths 64: this model's learned positions end at 32: legal: up to 32"));
}

TEST_CASE("evaluation without held-out text is refused", "[cli]") {
  const Mixture w;
  const auto spec = w.spec("gpt", "fp32");
  const std::vector<std::string> nothing = {"--set", "data.train=[{path: '" + w.path("nothing-held-out") + "'}]",
                                            "--set", "train.steps=3"};
  Outcome o = run(w.train(spec, "r", nothing));
  CHECK(o.code == 2);
  CHECK_THAT(o.output, Contains("eval.every = 10 has no effect: no dataset of data.train holds text out") &&
                           Contains("data.validation"));
  auto more = nothing;
  more.insert(more.end(), {"--set", "data.validation=" + w.path("nothing-held-out")});
  o = run(w.train(spec, "r", more));
  CHECK(o.code == 2);
  CHECK_THAT(o.output, Contains("holds nothing out and is also trained on"));
  more = nothing;
  more.insert(more.end(), {"--set", "eval.every=0"});
  o = run(w.train(spec, "r", more));
  CAPTURE(o.output);
  CHECK(o.code == 0);
  CHECK_THAT(o.output, Contains("no text is held out, so the run has no validation loss"));
}

TEST_CASE("a run writes sample text at its evaluations, which depends on nothing but the spec", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("llama", "fp32");
  const std::vector<std::string> sample = {"--set", "eval.sample_prompt='Verse 7'", "--set", "eval.sample_tokens=12"};
  const auto text_of = [&](const std::string& name, const std::vector<std::string>& more) {
    auto all = sample;
    all.insert(all.end(), more.begin(), more.end());
    const Outcome o = run(w.train(spec, name, all));
    CAPTURE(o.output);
    REQUIRE(o.code == 0);
    CHECK_THAT(o.output, Contains("sample text after step 20: Verse 7"));
    const auto report = nlohmann::json::parse(slurp(w.run_directory(name) / "report.json"));
    CHECK(report.at("sample_step") == 20);
    CHECK(report.at("sample_prompt") == "Verse 7");
    return report.at("sample_text").get<std::string>();
  };
  const std::string text = text_of("a", {"--set", "logging.report=true"});
  CHECK(text == text_of("b", {}));
  CHECK_THAT(slurp(w.run_directory("a") / "report.html"), Contains("Sample text, step 20"));
  // Losses are those of a run without sample text.
  REQUIRE(run(w.train(spec, "c")).code == 0);
  CHECK(history(w.run_directory("a")) == history(w.run_directory("c")));
  const auto memory = nlohmann::json::parse(slurp(w.run_directory("a") / "memory.json"));
  CHECK(memory[0].at("arena_peak") <= memory[0].at("predicted_arena"));
}

TEST_CASE("sample text that a run cannot write is refused", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("llama", "fp32");
  const auto refused = [&](const std::vector<std::string>& more, const std::string& message) {
    const Outcome o = run(w.train(spec, "r", more));
    CAPTURE(o.output);
    CHECK(o.code == 2);
    CHECK_THAT(o.output, Contains(message));
  };
  refused({"--set", "eval.sample_prompt=x", "--set", "eval.sample_tokens=32"},
          "eval.sample_tokens = 32 leaves no space for eval.sample_prompt in data.seq_len = 32 tokens");
  refused({"--set", "eval.sample_prompt=one two three", "--set", "eval.sample_tokens=20"},
          "eval.sample_prompt has 13 tokens and eval.sample_tokens is 20: 33 together");
  refused({"--set", "eval.sample_tokens=20"}, "eval.sample_tokens has no effect without eval.sample_prompt");
  refused({"--set", "eval.sample_prompt=x", "--set", "eval.sample_tokens=5", "--set", "parallel.tensor=2"},
          "eval.sample_prompt needs the whole model on each rank");
}

TEST_CASE("a run on preferences shows accuracy and margin", "[cli]") {
  const Workspace w;
  REQUIRE(run(fptrain({"data", "train-tokenizer", "--vocab", "257", "--no-chat-tokens", "--out",
                       (w.root() / "bytes.json").string(), (w.root() / "text.txt").string()}))
              .code == 0);
  auto tokenizer = nlohmann::json::parse(slurp(w.root() / "bytes.json"));
  int id = 257;
  for (const char* token : {"<|system|>", "<|user|>", "<|assistant|>", "<|end|>"})
    tokenizer["added_tokens"].push_back({{"id", id++},
                                         {"content", token},
                                         {"single_word", false},
                                         {"lstrip", false},
                                         {"rstrip", false},
                                         {"normalized", false},
                                         {"special", true}});
  std::ofstream(w.root() / "chat.json") << tokenizer.dump();
  std::ofstream pairs(w.root() / "pairs.jsonl");
  for (int i = 0; i < 40; ++i)
    pairs << R"({"messages": [{"role": "user", "content": "q)" << i << R"("}], "chosen": "yes", "rejected": "no"})"
          << "\n";
  pairs.close();
  const Outcome prepared =
      run(fptrain({"data", "prepare", "--preferences", "phi3", "--tokenizer", (w.root() / "chat.json").string(),
                   "--out", (w.root() / "pairs").string(), (w.root() / "pairs.jsonl").string()}));
  CAPTURE(prepared.output);
  REQUIRE(prepared.code == 0);
  const auto spec = w.spec("llama", "fp32");
  const std::vector<std::string> data = {"--set", "data.train=[{path: '" + (w.root() / "pairs").string() + "'}]",
                                         "--set", "model.vocab=300",
                                         "--set", "data.sampling=documents"};
  REQUIRE(run(w.train(spec, "base", {"--set", "model.vocab=300", "--set", "train.steps=4"})).code == 0);
  std::vector<std::string> more = data;
  more.insert(more.end(), {"--set", "train.objective=dpo", "--set", "train.z_loss=0", "--set", "train.steps=10",
                           "--set", "logging.report=true", "--set", "model.init_changes=true",  // "base" reads bytes
                           "--set", "model.init_from=" + w.run_directory("base").string()});
  const Outcome o = run(w.train(spec, "dpo", more));
  CAPTURE(o.output);
  REQUIRE(o.code == 0);
  CHECK_THAT(o.output, Contains(" | accuracy ") && Contains(" | margin ") && Contains(" | val accuracy "));
  CHECK_THAT(o.output, Contains("10 steps x 4 pairs x 2 x 32 = 2.56k tokens with padding"));
  const std::string page = slurp(w.run_directory("dpo") / "report.html");
  CHECK_THAT(page, Contains("Loss, mean of pairs") && Contains("Accuracy, pairs with") && Contains("Reward margin"));
  CHECK_THAT(page, !Contains("nats per token") && !Contains("Validation, perplexity"));
  CHECK_THAT(slurp(w.run_directory("dpo") / "report.json"), Contains("initial weights from"));

  // A start that was interrupted while it scored has left the scores of the first pairs.
  const auto file = w.run_directory("dpo") / "reference-scores.bin";
  const std::string whole = slurp(file);
  const size_t line = whole.find('\n') + 1;
  std::vector<double> scores((whole.size() - line) / sizeof(double));
  std::memcpy(scores.data(), whole.data() + line, whole.size() - line);
  std::fill(scores.begin() + 20, scores.end(), std::nan(""));
  auto header = nlohmann::json::parse(whole.substr(0, line));
  header["partial"] = true;
  header["xxh3"] = hash_bytes(scores.data(), scores.size() * sizeof(double));
  std::ofstream(file, std::ios::binary) << header.dump() << '\n'
                                        << std::string_view(reinterpret_cast<const char*>(scores.data()),
                                                            scores.size() * sizeof(double));
  std::filesystem::remove_all(w.run_directory("dpo") / "checkpoints");
  const Outcome again = run(w.train(spec, "dpo", more));
  CAPTURE(again.output);
  CHECK(again.code == 0);
  CHECK_THAT(again.output, Contains("the first 10 pairs were scored before"));
  CHECK(slurp(file) == whole);

  // A resumed run that would have to score with another model than it began with is refused.
  std::filesystem::remove(file);
  REQUIRE(run(w.train(spec, "base", {"--set", "model.vocab=300", "--set", "train.steps=8"})).code == 0);
  more.insert(more.end(), {"--set", "train.steps=12"});
  const Outcome other = run(w.train(spec, "dpo", more));
  CAPTURE(other.output);
  CHECK(other.code == 2);
  CHECK_THAT(other.output, Contains("the run began with another reference model"));
}
