#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "base/error.h"
#include "config/compare_models.h"
#include "config/expect.h"
#include "config/hf/hf_config.h"
#include "config/load.h"
#include "config/model_facts.h"
#include "config/preset.h"

using namespace fp;

namespace {

namespace fs = std::filesystem;

// A temporary folder, removed at the end of the test.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("fptrain-hf-config-" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path / name) << text; }
};

constexpr const char* kLlama = R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
  "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 500,
  "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 500000.0})";

}  // namespace

TEST_CASE("every preset survives conversion to config.json and back", "[config]") {
  int tried = 0;
  for (const std::string& name : preset_names()) {
    CAPTURE(name);
    ModelSection m = load_preset(name);
    if (m.vocab == 0 || name == "phi-3-medium-128k")
      continue;  // vocabulary from the tokenizer, or factors that were never published
    if (m.dropout_residual != m.dropout_ffn && m.family != Family::phi3small) continue;
    ModelSection back = model_from_hf_config(to_hf_config(m).dump(), "config.json");
    back.name = m.name;
    back.scaled_residual_init = m.scaled_residual_init;  // config.json has no initialisation
    CHECK(back == m);
    ++tried;
  }
  CHECK(tried > 20);
}

TEST_CASE("published files describe the presets, and are written as they were", "[config]") {
  // Keys that say nothing about what is trained.
  const std::set<std::string> other = {"bos_token_id",         "eos_token_id", "max_window_layers", "torch_dtype",
                                       "transformers_version", "use_cache",    "use_mrope"};
  for (const std::string name : {"qwen2.5-0.5b", "mistral-7b-v0.1", "qwen3-0.6b"}) {
    CAPTURE(name);
    const fs::path file = fs::path(FP_SOURCE_DIR "/tests/fuzz/corpus/hf_config") / (name + ".json");
    std::ifstream in(file);
    const auto published = nlohmann::json::parse(in);
    ModelSection m = model_from_hf_config(published.dump(), file.string());
    const auto written = to_hf_config(m);
    for (const auto& [key, value] : published.items()) {
      CAPTURE(key);
      if (other.contains(key) || (key == "sliding_window" && !m.traits().sliding_window)) continue;
      REQUIRE(written.contains(key));
      CHECK(nlohmann::json(written[key]) == value);
    }
    const ModelSection preset = load_preset(name);
    m.name = preset.name;
    m.scaled_residual_init = preset.scaled_residual_init;
    CHECK(m == preset);
  }
}

TEST_CASE("a window in config.json is read as its class reads it", "[config]") {
  const auto window = [](const std::string& family, const std::string& keys) {
    return model_from_hf_config(R"({"model_type": ")" + family + R"(", "hidden_size": 64, "intermediate_size": 96,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 500, "max_position_embeddings": 128, "head_dim": 16)" +
                                    keys + "}",
                                "config.json")
        .sliding_window;
  };
  CHECK(window("mistral", R"(, "sliding_window": 17)") == 17);
  CHECK(window("mistral", R"(, "sliding_window": null)") == 0);
  CHECK(window("mistral", "") == 4096);  // the default of MistralConfig
  for (const std::string family : {"qwen2", "qwen3"}) {
    CHECK(window(family, R"(, "sliding_window": 17, "use_sliding_window": false)") == 0);
    CHECK_THROWS_WITH(window(family, R"(, "sliding_window": 17, "use_sliding_window": true)"),
                      says("use_sliding_window: true; legal: false"));
  }
}

namespace {

// Returns the model of a config.json of this type with these keys beside the sizes.
ModelSection model_with(const std::string& type, const std::string& keys) {
  return model_from_hf_config(R"({"model_type": ")" + type + R"(", "hidden_size": 512, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 32, "vocab_size": 500, "max_position_embeddings": 128, "head_dim": 16)" +
                                  keys + "}",
                              "config.json");
}

}  // namespace

TEST_CASE("rotary keys of config.json are read from where transformers reads them", "[config]") {
  const auto rope = [](const std::string& keys) { return model_with("llama", keys).rope; };
  CHECK(rope(R"(, "rope_theta": 5e5)").theta == 5e5);
  CHECK(rope(R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5})").theta == 5e5);
  CHECK(rope(R"(, "rope_theta": 5e5, "rope_parameters": {"rope_type": "default"})").theta == 5e5);
  CHECK(rope(R"(, "rope_theta": 5e5, "rope_scaling": {}, "rope_parameters": {"rope_theta": 7e5})").theta == 7e5);
  CHECK(rope(R"(, "rope_scaling": null)").theta == 1e4);
  const auto linear = rope(R"(, "rope_scaling": {"type": "linear", "factor": 2, "rope_theta": 5e5})");
  CHECK(linear.theta == 5e5);
  CHECK(linear.factor == 2);
  CHECK(rope(R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
                  "rope_scaling": {"rope_type": "linear", "factor": 4})")
            .factor == 4);
  for (const char* partial :
       {R"(, "partial_rotary_factor": 0.5)", R"(, "rope_parameters": {"partial_rotary_factor": 0.5})",
        R"(, "partial_rotary_factor": 0.5, "rope_parameters": {"rope_theta": 1e4})"})
    CHECK_THROWS_WITH(rope(partial), says("partial_rotary_factor: 0.5"));
}

TEST_CASE("absent keys of config.json mean what the model's class says", "[config]") {
  for (const auto& [type, kv_heads, eps] :
       {std::tuple<std::string, int64_t, double>{"llama", 32, 1e-6}, {"phi3", 32, 1e-5}, {"mistral", 8, 1e-6}}) {
    CAPTURE(type);
    CHECK(model_with(type, "").kv_heads == kv_heads);
    CHECK(model_with(type, R"(, "num_key_value_heads": null)").kv_heads == 32);
    CHECK(model_with(type, R"(, "num_key_value_heads": 4)").kv_heads == 4);
    CHECK(model_with(type, "").norm_eps == eps);
  }
}

TEST_CASE("a folder with config.json is a preset", "[config]") {
  const Folder folder;
  folder.write("config.json", kLlama);
  const RunSpec spec =
      parse_run_spec("model: {preset: " + folder.path.string() + ", layers: 5}", "run.yaml", {"data.seq_len=64"});
  CHECK(spec.model.layers == 5);
  CHECK(spec.model.kv_heads == 2);
  CHECK(spec.model.rope.theta == 500000.0);
  CHECK(spec.model.preset.empty());
}

TEST_CASE("the config.yaml of a run is a preset", "[config]") {
  const Folder folder;
  RunSpec before =
      parse_run_spec("model: {family: llama, layers: 2, hidden: 32, heads: 2, ffn: 48, vocab: 77}", "run.yaml");
  before.model.init_from = "somewhere";
  folder.write("config.yaml", dump(before));
  const RunSpec spec = parse_run_spec("model: {preset: " + folder.path.string() + "}", "run.yaml");
  CHECK(spec.model.hidden == 32);
  CHECK(spec.model.vocab == 77);
  CHECK(spec.model.init_from.empty());  // a preset gives the architecture, not the weights
}

TEST_CASE("init_from alone defines the model and is not read again once resolved", "[config]") {
  std::string text;
  {
    const Folder folder;
    folder.write("config.json", kLlama);
    const RunSpec spec =
        parse_run_spec("model: {init_from: " + folder.path.string() + "}", "run.yaml", {"data.seq_len=64"});
    CHECK(spec.model.hidden == 64);
    CHECK(spec.model.init_from == folder.path.string());
    text = dump(spec);
  }
  CHECK(parse_run_spec(text, "config.yaml").model.hidden == 64);  // the folder is gone
  CHECK_THROWS_AS(parse_run_spec("model: {init_from: /nowhere/at/all}", "run.yaml"), ConfigError);
}

TEST_CASE("the spec of a checkpoint leads to no other file", "[config]") {
  const Folder folder;
  RunSpec spec =
      parse_run_spec("model: {family: llama, layers: 2, hidden: 32, heads: 2, ffn: 48, vocab: 77}", "run.yaml");
  spec.model.init_from = folder.path.string();
  folder.write("config.json", "{ no JSON");
  CHECK(parse_stored_spec(dump(spec), "config.yaml").model.hidden == 32);
  CHECK_THROWS_AS(parse_run_spec(dump(spec), "config.yaml"), UserError);

  spec.model.init_from.clear();
  folder.write("config.yaml", dump(spec));
  CHECK_THROWS_AS(parse_stored_spec("model: {preset: " + folder.path.string() + "}", "config.yaml"), ConfigError);
}

TEST_CASE("init_from gives the architecture, and keys beside it override it", "[config]") {
  const Folder folder;
  folder.write("config.json", kLlama);
  const std::string from = "init_from: " + folder.path.string();
  const RunSpec spec = parse_run_spec("model: {" + from + ", dropout_residual: 0.1, vocab: 512}", "run.yaml",
                                      {"data.seq_len=64", "model.max_position=256"});
  CHECK(spec.model.family == Family::llama);
  CHECK(spec.model.kv_heads == 2);
  CHECK(spec.model.dropout_residual == 0.1);
  CHECK(spec.model.vocab == 512);
  CHECK(spec.model.max_position == 256);
  CHECK(parse_run_spec("model: {preset: gpt2, " + from + "}", "run.yaml").model.family == Family::gpt);
}

TEST_CASE("init_from without a description of its model is refused where the spec needs it", "[config]") {
  const Folder folder;
  CHECK_THAT(error_of("model: {init_from: models/none, dropout_residual: 0.1}"),
             says("run.yaml:1:20: model.init_from: 'models/none' does not exist; legal: "));
  CHECK_THAT(error_of("model: {init_from: " + folder.path.string() + "}"), says("does not describe a model; legal: "));
  CHECK(error_of("model: {init_from: models/none, family: gpt, layers: 1, hidden: 32, heads: 2}").empty());
  CHECK(error_of("model: {init_from: models/none, preset: gpt2}").empty());
}

TEST_CASE("a model that starts from another must have its sizes, but may have more ids and positions", "[config]") {
  const ModelSection base = load_preset("gpt2");
  const auto sizes = [&](const std::function<void(ModelSection&)>& change) {
    ModelSection m = base;
    change(m);
    const std::vector<std::string> found = size_differences(m, base);
    return found.empty() ? "" : found.front();
  };
  CHECK(sizes([](ModelSection& m) { m.vocab += 8; }).empty());
  CHECK(sizes([](ModelSection& m) { m.max_position += 8; }).empty());
  CHECK(sizes([](ModelSection& m) { m.dropout_residual = 0.5; }).empty());
  CHECK(sizes([](ModelSection& m) { m.vocab = 100; }) == "model.vocab: 100 here, 50257 there");
  CHECK(sizes([](ModelSection& m) { m.max_position = 100; }) == "model.max_position: 100 here, 1024 there");
  CHECK(sizes([](ModelSection& m) { m.hidden = 96; }) == "model.hidden: 96 here, 768 there");
}

TEST_CASE("a longer maximum position changes the function only where longrope uses it", "[config]") {
  const auto changes = [](const std::string& preset) {
    const ModelSection base = load_preset(preset);
    ModelSection longer = base;
    longer.max_position *= 2;
    longer.dropout_residual = 0.5;
    return model_differences(longer, base).size();
  };
  CHECK(changes("llama-3.2-1b") == 0);
  CHECK(changes("gpt2") == 0);
  CHECK(changes("phi-3-mini-128k") == 1);
}

TEST_CASE("DPO needs a reference model and refuses keys without effect", "[config]") {
  const std::string dpo = "train: {objective: dpo}\nmodel: {family: gpt, layers: 1, hidden: 32, heads: 2";
  CHECK_THAT(error_of(dpo + "}"), says("needs a reference model"));
  CHECK_NOTHROW(parse_run_spec(dpo + ", init_from: x}", "run.yaml"));
  CHECK_THAT(error_of("train: {objective: sft, dpo: {beta: 0.2}}"), says("train.dpo has no effect"));
}

TEST_CASE("phi-3's rope_scaling has three fields and needs the derived attention factor", "[config]") {
  ModelSection m = load_preset("phi-3-mini-128k");
  m.rope.attention_factor = longrope_attention_factor(m.rope, m.max_position);
  CHECK(to_hf_config(m)["rope_scaling"].size() == 3);
  m.rope.attention_factor = 1.25;
  CHECK_THROWS_WITH(to_hf_config(m), says("model.rope.attention_factor: 1.25"));
  m.rope.attention_factor.reset();
  m.rope.scale_short = false;
  CHECK_THROWS_WITH(to_hf_config(m), says("model.rope.scale_short"));
}

TEST_CASE("phi-3-small with longrope survives conversion to config.json and back", "[config]") {
  ModelSection m = load_preset("phi-3-small-8k");
  nlohmann::json config = to_hf_config(m);
  config["max_position_embeddings"] = 131072;
  config["rope_scaling"] = {{"type", "su"},
                            {"short_factor", std::vector<double>(64, 1.5)},
                            {"long_factor", std::vector<double>(64, 2.5)},
                            {"short_mscale", 1.0},
                            {"long_mscale", 1.25},
                            {"original_max_position_embeddings", 8192}};
  m = model_from_hf_config(config.dump(), "config.json");
  CHECK(m.rope.attention_factor == 1.25);
  CHECK(m.rope.original_max_position == 8192);
  CHECK_FALSE(m.rope.scale_short);
  CHECK(model_from_hf_config(to_hf_config(m).dump(), "config.json") == m);
  config["rope_scaling"]["short_mscale"] = 1.1;
  CHECK_THROWS_WITH(model_from_hf_config(config.dump(), "config.json"), says("rope_scaling.short_mscale: 1.1"));
  m.rope.scale_short = true;
  CHECK_THROWS_WITH(to_hf_config(m), says("model.rope.scale_short"));
}

TEST_CASE("phi-3-small without a multiplier or blocksparse layers is exported as its class computes it", "[config]") {
  ModelSection m = load_preset("phi-3-small-8k");
  m.mup.attention = 0;  // scores are divided by the root of the head size
  m.blocksparse.dense_every = 0;
  const nlohmann::json config = to_hf_config(m);
  CHECK(config["mup_attn_multiplier"].get<double>() == Approx(std::sqrt(static_cast<double>(m.head_dim))));
  CHECK(config["dense_attention_every_n_layers"] == 1);
  nlohmann::json sparse = to_hf_config(load_preset("phi-3-small-8k"));
  sparse["dense_attention_every_n_layers"] = 0;
  CHECK_THROWS_WITH(model_from_hf_config(sparse.dump(), "config.json"), says("dense_attention_every_n_layers: 0"));
}

TEST_CASE("a null with a meaning of its own in phi-3-small's config.json is refused", "[config]") {
  for (const char* key : {"gegelu_limit", "dense_attention_every_n_layers"}) {
    nlohmann::json config = to_hf_config(load_preset("phi-3-small-8k"));
    config[key] = nullptr;
    CHECK_THROWS_WITH(model_from_hf_config(config.dump(), "config.json"), says(std::string(key) + ": null"));
  }
}

TEST_CASE("a list of numbers in config.json has a greatest length", "[config]") {
  nlohmann::json config = to_hf_config(load_preset("phi-3-small-8k"));
  config["dummy_token_indices"] = std::vector<int>(8193, 1);
  CHECK_THROWS_WITH(model_from_hf_config(config.dump(), "config.json"),
                    says("dummy_token_indices: a list of 8193 entries; legal: up to 8192"));
}

TEST_CASE("masked ids can be exported for phi-3-small only", "[config]") {
  ModelSection m = load_preset("llama-2-7b");
  m.masked_ids = {3};
  CHECK_THROWS_WITH(to_hf_config(m), says("model.masked_ids"));
}
