// Loading run specs: defaults, presets, --set, places of problems.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "config/load.h"
#include "config/preset.h"
#include "config/yaml/problems.h"
#include "expect.h"
#include "support/nobody.h"

namespace fp {

namespace {

namespace fs = std::filesystem;

struct TempFolder {
  fs::path path;
  TempFolder() {
    std::string name = (fs::temp_directory_path() / "fp_config_XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~TempFolder() { fs::remove_all(path); }
  fs::path write(const std::string& name, const std::string& text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << text;
    return path / name;
  }
};

}  // namespace

TEST_CASE("an empty map gives the resolved defaults", "[config]") {
  RunSpec expected;
  resolve(expected);
  CHECK(parse_run_spec("{}", "run.yaml") == expected);
  CHECK(expected.model.kv_heads == 12);
  CHECK(expected.model.head_dim == 64);
  CHECK(expected.model.ffn == 3072);
  CHECK(expected.model.rope.kind == RopeKind::none);
  CHECK(expected.model.name == "gpt");
  CHECK(expected.run.directory == "runs/run");
  RunSpec again = expected;
  resolve(again);
  CHECK(again == expected);
}

TEST_CASE("values of every type are parsed", "[config]") {
  const RunSpec spec = parse_run_spec(R"(
run: {name: "2024", seed: 18446744073709551615, threads: 2}
model:
  family: llama
  ffn: 1_024
  tied_embeddings: false
  masked_ids: [0, 7]
  rope: {kind: linear, factor: 2.5}
data:
  train:
    - {path: a, weight: 2}
    - path: b
optimizer: {lr: 3.0e-4}
train: {steps: 1e6, global_batch: 1.6e1}
)",
                                      "run.yaml");
  CHECK(spec.run.name == "2024");
  CHECK(spec.run.seed == UINT64_MAX);
  CHECK(spec.run.threads == 2);
  CHECK(spec.model.family == Family::llama);
  CHECK(spec.model.ffn == 1024);
  CHECK_FALSE(spec.model.tied_embeddings);
  CHECK(spec.model.masked_ids == std::vector<int64_t>{0, 7});
  CHECK(spec.model.rope.kind == RopeKind::linear);
  CHECK(spec.model.rope.factor == 2.5);
  CHECK(spec.data.train == std::vector<DatasetSpec>{{"a", 2.0}, {"b", 1.0}});
  CHECK(spec.optimizer.lr == 3e-4);
  CHECK(spec.train.steps == 1000000);
  CHECK(spec.train.global_batch == 16);
}

TEST_CASE("all problems of a file are reported at once in order with their places", "[config]") {
  const std::string message = error_of(R"(optimizer:
  learning_rat: 1e-3
  beta1: 1.0
train:
  steps: ten
  micro_batch: 3
weight_decay: 0.1
model: {layers: 2.5, family: lama}
)");
  CHECK(message ==
        "7 problems:\n"
        "  run.yaml:2:3: unknown key 'optimizer.learning_rat'. Did you mean 'optimizer.lr'? Legal keys of optimizer: "
        "kind, lr, beta1, beta2, eps, "
        "weight_decay, grad_clip, muon\n"
        "  run.yaml:3:10: optimizer.beta1: 1.0 is out of range; legal: number from 0 to 1 (1 excluded)\n"
        "  run.yaml:5:10: train.steps: the text 'ten' is of the wrong type; legal: integer from 1 to 1000000000000000\n"
        "  run.yaml:6:16: train.global_batch = 8 must be a multiple of train.micro_batch = 3\n"
        "  run.yaml:7:1: unknown key 'weight_decay'. Did you mean 'optimizer.weight_decay'? Legal keys: run, model, "
        "data, optimizer, schedule, train, parallel, communication, memory, precision, checkpoint, logging, eval, "
        "watchdog\n"
        "  run.yaml:8:17: model.layers: 2.5 is not a whole number; legal: integer from 1 to 10000\n"
        "  run.yaml:8:30: model.family: 'lama' is not known (did you mean 'llama'?); legal: text one of gpt, llama, "
        "phi3, phi3small, qwen2, mistral, qwen3");
}

TEST_CASE("of many problems the first fifty are listed", "[config]") {
  std::string text;
  for (int i = 10; i < 70; ++i) text += fmt::format("key{}: 1\n", i);
  const std::string message = error_of(text);
  CHECK_THAT(message, says("\n  run.yaml:40:1: ") && says("\n  ... and 1"));
  CHECK(std::count(message.begin(), message.end(), '\n') == 51);
}

TEST_CASE("a word of three letters is nearest to words with the same letters or the same first letter", "[config]") {
  CHECK(nearest("gpu", {"auto", "cpu", "cuda", "ref"}).empty());
  CHECK(nearest("pcu", {"auto", "cpu", "cuda", "ref"}) == "cpu");
  CHECK(nearest("cpy", {"auto", "cpu", "cuda", "ref"}) == "cpu");
  CHECK(nearest("bf6", {"bf16", "fp32"}) == "bf16");
}

TEST_CASE("the message for a YAML syntax error suggests a fix", "[config]") {
  const auto error_of_text = [](const std::string& text) {
    try {
      parse_run_spec(text, "run.yaml");
    } catch (const ConfigError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK_THAT(error_of_text("run:\n\tname: x\n"), says("run.yaml:2:") && says("indented with a tab"));
  for (const char* text : {"train:\n  steps: 5\n\tglobal_batch: 4\n", "train:\n  steps: 5\n \teval: 4\n  x: y: z\n"})
    CHECK_THAT(error_of_text(text), says("indented with a tab"));
  CHECK_THAT(error_of_text("run: {name: x\n"), says("a '{' or '[' above is not closed"));
  CHECK_THAT(error_of_text("data: {train: [{path: x}\n"), says("a '{' or '[' above is not closed"));
  CHECK_THAT(error_of_text("run:\n  name: x: y\n"), !says("tab") && !says("closed"));
}

TEST_CASE("an unknown key is reported with the nearest known one", "[config]") {
  CHECK_THAT(error_of("optimizer: {wieght_decay: 0}"), says("Did you mean 'weight_decay'?"));
  CHECK_THAT(error_of("model: {n_layers: 2}"), says("Did you mean 'layers'?"));
  CHECK_THAT(error_of("optimiser: {lr: 1}"), says("Did you mean 'optimizer'?"));
  CHECK_THAT(error_of("train: {lr: 1}"), says("Did you mean 'optimizer.lr'?"));
  CHECK_THAT(error_of("train: {learning_rate: 1}"), says("Did you mean 'optimizer.lr'?"));
  CHECK_THAT(error_of("model: {theta: 1}"), says("Did you mean 'model.rope.theta'?"));
  CHECK_THAT(error_of("data: {train: [{path: a, wight: 1}]}"),
             says("run.yaml:1:26: unknown key 'data.train[0].wight'"));
}

TEST_CASE("the option --set overrides the file with the same checks", "[config]") {
  const std::string file = "data: {train: [{path: a}, {path: b, weight: 3}]}\noptimizer: {lr: 1e-3}";
  const RunSpec spec =
      parse_run_spec(file, "run.yaml",
                     {"optimizer.lr=2e-3", "data.train[0].weight=2", "data.train[2]={path: c}", "model.rope.kind=none",
                      "run.name=\"7\"", "optimizer.lr=4e-3", "data.validation="});
  CHECK(spec.optimizer.lr == 4e-3);
  CHECK(spec.data.train == std::vector<DatasetSpec>{{"a", 2.0}, {"b", 3.0}, {"c", 1.0}});
  CHECK(spec.run.name == "7");
  CHECK(parse_run_spec(file, "run.yaml", {"data.train=[{path: d}]"}).data.train.size() == 1);

  CHECK_THAT(error_of(file, {"optimizer.lr=-1"}), says("--set optimizer.lr=-1: optimizer.lr: -1 is out of range"));
  CHECK_THAT(error_of(file, {"optimizer.rl=1"}),
             says("--set optimizer.rl=1: unknown key 'optimizer.rl'. Did you mean 'lr'"));
  CHECK_THAT(error_of(file, {"optimizer.lr"}), says("--set optimizer.lr: must have the form"));
  CHECK_THAT(error_of(file, {"optimizer..lr=1"}), says("must have the form"));
  CHECK_THAT(error_of(file, {"=1"}), says("must have the form"));
  CHECK_THAT(error_of(file, {"data.train[0=1"}), says("must have the form"));
  CHECK_THAT(error_of(file, {"data.train[99999999999999999999].path=x"}), says("must have the form"));
  CHECK_THAT(error_of(file, {"data.train[3].path=x"}), says("the list has no item 3"));
  CHECK_THAT(error_of(file, {"data.train.path=x"}), says("data.train[0].path=... after --set"));
  CHECK_THAT(error_of(file, {"optimizer.lr.x=1"}), says("optimizer.lr: a map is of the wrong type"));
  CHECK_THAT(error_of(file, {"optimizer.lr=[1"}), says("--set optimizer.lr=[1: YAML syntax"));
  CHECK_THAT(error_of(file, {"optimizer.lr=&a 1"}), says("anchors are not allowed"));
  for (const char* text : {"Problem #1 is", "#1", "3 # three", "a\n #b"})
    CHECK_THAT(error_of(file, {std::string("eval.sample_prompt=") + text}), says("put the value in quotes"));
  CHECK(parse_run_spec(file, "run.yaml", {"eval.sample_prompt=C#1"}).eval.sample_prompt == "C#1");
  CHECK(parse_run_spec(file, "run.yaml", {"eval.sample_prompt=\"a #1\""}).eval.sample_prompt == "a #1");
  CHECK_THAT(error_of(file, {"optimizer.lr="}), says("the text \"\" is of the wrong type"));
  CHECK_THAT(error_of(file, {"run.name=5"}), says("quote it: \"5\""));
  CHECK_THAT(error_of("run: {name: \"a\\0b\"}"), says("run.name: ") && says("contains the character \\0; legal: text"));
}

TEST_CASE("the file overrides its preset and --set overrides both", "[config]") {
  const RunSpec spec = parse_run_spec("model: {preset: llama-3.1-8b, layers: 2, rope: {factor: 4}}", "run.yaml",
                                      {"model.hidden=1024", "model.rope.low_freq_factor=2"});
  CHECK(spec.model.layers == 2);
  CHECK(spec.model.hidden == 1024);
  CHECK(spec.model.rope.factor == 4);
  CHECK(spec.model.rope.low_freq_factor == 2);
  CHECK(spec.model.rope.theta == 500000);
  CHECK(spec.model.name == "llama-3.1-8b");
  CHECK(spec.model.preset.empty());
  CHECK(parse_run_spec("{}", "run.yaml", {"model.preset=gpt2-xl"}).model.hidden == 1600);
  CHECK_THAT(error_of("model: {preset: llama-2-7}"),
             says("run.yaml:1:17: model.preset: 'llama-2-7' is not known (did you mean 'llama-2-7b'?)"));
  CHECK_THAT(error_of("model:\n  preset: 7\n"), says("run.yaml:2:11: model.preset: the number 7 is not text"));
  // A contradiction between the file and the preset is reported at the preset's key.
  CHECK_THAT(error_of("model: {preset: llama-3.2-1b, rope: {kind: standard}}"),
             says("llama-3.2-1b.yaml:") && says("model.rope.factor has no effect with model.rope.kind standard"));
}

TEST_CASE("escapes that yaml-cpp turns into broken UTF-8 are refused", "[config]") {
  for (const char* escape : {"\\N", "\\_"})
    CHECK_THAT(error_of(fmt::format("run:\n  name: \"a{}\"\n", escape)),
               says("run.yaml:2:9: the escapes \\N and \\_ are not supported; write \\u0085 or \\u00a0"));
  CHECK(parse_run_spec("run: {name: \"a\\u0085\\u00a0\"}", "run.yaml").run.name == "a\xc2\x85\xc2\xa0");
}

TEST_CASE("preset files are found by path and must have only a model section", "[config]") {
  const TempFolder folder;
  folder.write("mine.yaml", "model: {family: llama, ffn: 64, vocab: 100}");
  folder.write("nested.yaml", "model: {preset: gpt2}");
  folder.write("more.yaml", "model: {layers: 2}\ntrain: {steps: 3}");
  folder.write("broken.yaml", "model: {layers: two}");
  const auto run = [&](const std::string& preset) {
    const fs::path file = folder.write("run.yaml", "model: {preset: " + preset + "}");
    try {
      return "read " + load_run_spec(file).model.name;
    } catch (const ConfigError& e) {
      return std::string(e.what());
    }
  };
  CHECK(run("mine.yaml") == "read mine");
  CHECK(run(folder.path.string() + "/mine.yaml") == "read mine");
  CHECK_THAT(run("nested.yaml"), says("nested.yaml:1:17: a preset cannot be based on another preset"));
  CHECK_THAT(run("more.yaml"), says("more.yaml:2:1: a model preset has only the section model, not 'train'"));
  CHECK_THAT(run("broken.yaml"), says("broken.yaml:1:17: model.layers: the text 'two' is of the wrong type"));
  CHECK_THAT(run("absent.yaml"), says("run.yaml:1:17: model.preset: 'absent.yaml' is not known"));
}

TEST_CASE("presets in $FPTRAIN_CONFIGS take precedence", "[config]") {
  const TempFolder folder;
  folder.write("models/gpt2.yaml", "model: {layers: 3}");
  REQUIRE(setenv("FPTRAIN_CONFIGS", folder.path.c_str(), 1) == 0);
  const int64_t layers = parse_run_spec("model: {preset: gpt2}", "run.yaml").model.layers;
  unsetenv("FPTRAIN_CONFIGS");
  CHECK(layers == 3);
  CHECK(parse_run_spec("model: {preset: gpt2}", "run.yaml").model.layers == 12);
}

TEST_CASE("files and data folders must exist", "[config]") {
  const TempFolder folder;
  const auto message = [](const fs::path& file) {
    try {
      load_run_spec(file);
      return std::string();
    } catch (const ConfigError& e) {
      return std::string(e.what());
    }
  };
  CHECK_THAT(message(folder.path / "absent.yaml"), says("absent.yaml: cannot be read: No such file"));
  CHECK_THAT(message(folder.path), says("is a folder, not a run spec"));
  const fs::path file = folder.write("run.yaml", "data:\n  train: [{path: /nowhere}]\n  validation: /neither\n");
  CHECK_THAT(message(file), says("run.yaml:2:18: data.train[0].path: there is no dataset '/nowhere'") &&
                                says("run.yaml:3:15: data.validation: there is no dataset '/neither'"));
  CHECK(load_run_spec(file, {}, DataFolders::may_be_missing).data.train.size() == 1);
  CHECK(message(folder.write("ok.yaml", "data: {train: [{path: " + folder.path.string() + "}]}")).empty());
}

TEST_CASE("validate_for_training refuses a spec without data", "[config]") {
  CHECK_THROWS_AS(validate_for_training(parse_run_spec("{}", "run.yaml")), ConfigError);
  CHECK_NOTHROW(validate_for_training(parse_run_spec("data: {train: [{path: a}]}", "run.yaml")));
  CHECK_THAT(error_of("data: {train: [{weight: 1}]}"), says("run.yaml:1:16: data.train[0].path must be given"));
}

TEST_CASE("a spec changed by code is checked like a file", "[config]") {
  RunSpec spec = parse_run_spec("{}", "run.yaml");
  CHECK_NOTHROW(validate(spec));
  spec.optimizer.beta2 = 1;
  spec.train.micro_batch = 5;
  CHECK_THROWS_WITH(validate(spec),
                    says("optimizer.beta2: 1 is out of range") && says("multiple of train.micro_batch = 5"));
}

TEST_CASE("validate() finds the same errors as reading the dumped spec", "[config]") {
  const std::vector<std::function<void(RunSpec&)>> changes = {
      [](RunSpec& s) { s.optimizer.beta2 = 1; },
      [](RunSpec& s) { s.optimizer.lr = std::numeric_limits<double>::quiet_NaN(); },
      [](RunSpec& s) { s.optimizer.lr = std::numeric_limits<double>::infinity(); },
      [](RunSpec& s) { s.model.heads = 0; },
      [](RunSpec& s) { s.model.heads = -3; },
      [](RunSpec& s) { s.model.heads = 5; },
      [](RunSpec& s) { s.model.head_dim = 0; },
      [](RunSpec& s) { s.train.micro_batch = 0; },
      [](RunSpec& s) { s.train.micro_batch = 5, s.train.steps = -1; },
      [](RunSpec& s) {
        s.parallel.open = {"tensor", "everything"};
      },
      [](RunSpec& s) {
        s.parallel.pipeline.recompute = {Recompute::none, Recompute::full};
      },
      [](RunSpec& s) {
        s.model.masked_ids = {1, -2};
      },
      [](RunSpec& s) { s.data.train.resize(2), s.data.train[1].weight = -1; },
      [](RunSpec& s) { s.parallel.zero_stage = 4; },
      [](RunSpec& s) { s.parallel.open = {"tensor"}, s.parallel.tensor = -1; },
      [](RunSpec& s) { s.run.name = ""; },
      [](RunSpec& s) { s.model.rope.attention_factor = -1.0; },
  };
  const auto message = [](const auto& check) -> std::string {
    try {
      check();
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "";
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    RunSpec spec = parse_run_spec("{}", "run.yaml");
    changes[i](spec);
    CHECK(message([&] { validate(spec); }) == message([&] { parse_run_spec(dump(spec), ""); }));
  }
}

TEST_CASE("an unreadable preset is not reported as unknown", "[config]") {
  const TempFolder folder;
  fs::permissions(folder.path, fs::perms::none);
  for (const char* key : {"preset", "init_from"}) {
    const std::string text = fmt::format("model: {{{}: {}/in}}", key, folder.path.string());
    std::string message;
    {
      const test::Nobody nobody;
      message = error_of(text);
    }
    CHECK_THAT(message, Catch::StartsWith(fmt::format("run.yaml:1:{}: model.{}: {}/in", 11 + std::string(key).size(),
                                                      key, folder.path.string())) &&
                            Catch::EndsWith(": Permission denied"));
  }
  fs::permissions(folder.path, fs::perms::owner_all);
}

TEST_CASE("errors in a spec made by code have no line numbers", "[config]") {
  RunSpec spec = parse_run_spec("{}", "run.yaml");
  spec.optimizer.beta2 = 1;
  CHECK_THROWS_WITH(validate(spec), Catch::StartsWith("optimizer.beta2: 1 is out of range"));
  const TempFolder folder;
  folder.write("config.json", "{\"model_type\": \"gpt2\", \"n_embd\": 24, \"n_head\": 3, \"n_positions\": 32}");
  const std::string message = error_of("model: {preset: " + folder.path.string() + "}\ndata: {}");
  CHECK_THAT(message, says("/config.json: data.seq_len = 1024 is over model.max_position = 32"));
}

}  // namespace fp
