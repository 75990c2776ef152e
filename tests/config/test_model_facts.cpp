// Compares sizes and FLOPs of published models with published or hand-computed figures.
#include <catch2/catch.hpp>

#include "config/load.h"
#include "config/model_facts.h"
#include "config/preset.h"

namespace fp {

namespace {

ModelSection preset(const std::string& name) { return load_preset(name); }

// FLOPs per token as other projects count them, to compare with their figures.
// Megatron-LM (2021) without recomputation, 72 L h^2 (1 + T/(6h) + V/(12 L h)): full attention, kv_heads = heads, ffn =
// 4h.
double megatron_flops_per_token(const ModelSection& m, int64_t seq_len) {
  const auto l = static_cast<double>(m.layers), h = static_cast<double>(m.hidden);
  return 72 * l * h * h * (1 + static_cast<double>(seq_len) / (6 * h) + static_cast<double>(m.vocab) / (12 * l * h));
}

// nanoGPT: 6 N + 12 L H d T, N without the position table.
double nanogpt_flops_per_token(const ModelSection& m, int64_t seq_len) {
  const int64_t positions = m.family == Family::gpt ? m.max_position * m.hidden : 0;
  return static_cast<double>(6 * (parameter_count(m) - positions) + 12 * m.layers * m.heads * m.head_dim * seq_len);
}

// llm.c: 6 N + 6 L h T, N with the padded vocabulary.
double llmc_flops_per_token(const ModelSection& m, int64_t seq_len) {
  return static_cast<double>(6 * parameter_count(m, padded_vocab(m)) + 6 * m.layers * m.hidden * seq_len);
}

}  // namespace

TEST_CASE("every preset has exactly the published number of parameters", "[config][presets]") {
  struct Case {
    const char* name;
    int64_t parameters, padded;  // padded: with the embedding's rows padded to a multiple of 128; 0: the same
  };
  const auto cases = std::vector<Case>{
      {"gpt2", 124439808, 124475904},
      {"gpt2-medium", 354823168, 354871296},
      {"gpt2-large", 774030080, 774090240},
      {"gpt2-xl", 1557611200, 1557686400},
      {"gpt3-125m", 125226240, 125226240 + 47 * 768},
      {"gpt3-350m", 355871744, 355871744 + 47 * 1024},
      {"gpt3-760m", 760300032, 760300032 + 47 * 1536},
      {"gpt3-1.3b", 1315723264, 1315723264 + 47 * 2048},
      {"gpt3-2.7b", 2651553280, 2651553280 + 47 * 2560},
      {"gpt3-6.7b", 6658404352, 6658404352 + 47 * 4096},
      {"gpt3-13b", 12853386240, 12853386240 + 47 * 5120},
      {"gpt3-175b", 174604259328, 174604259328 + 47 * 12288},
      {"llama-2-7b", 6738415616, 0},
      {"llama-2-13b", 13015864320, 0},
      {"llama-2-70b", 68976648192, 0},
      {"llama-3-8b", 8030261248, 0},
      {"llama-3-70b", 70553706496, 0},
      {"llama-3.1-8b", 8030261248, 0},
      {"llama-3.1-70b", 70553706496, 0},
      {"llama-3.2-1b", 1235814400, 0},
      {"llama-3.2-3b", 3212749824, 0},
      {"phi-3-mini-4k", 3821079552, 3821079552 + 2 * 64 * 3072},
      {"phi-3-mini-128k", 3821079552, 3821079552 + 2 * 64 * 3072},
      {"phi-3-medium-4k", 13960238080, 13960238080 + 2 * 64 * 5120},
      {"phi-3-medium-128k", 13960238080, 13960238080 + 2 * 64 * 5120},
      {"phi-3-small-8k", 7392272384, 0},
      {"qwen2.5-0.5b", 494032768, 0},
      {"qwen2.5-1.5b", 1543714304, 0},
      {"qwen2.5-3b", 3085938688, 0},
      {"qwen2.5-7b", 7615616512, 0},
      {"mistral-7b-v0.1", 7241732096, 0},
      {"mistral-7b-v0.3", 7248023552, 0},
      {"qwen3-0.6b", 596049920, 0},
      {"qwen3-1.7b", 1720574976, 0},
      {"qwen3-4b", 4022468096, 0},
      {"qwen3-8b", 8190735360, 0},
      {"qwen3-14b", 14768307200, 0},
      {"qwen3-32b", 32762123264, 0},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const ModelSection m = preset(c.name);
    CHECK(parameter_count(m) == c.parameters);
    CHECK(parameter_count(m, padded_vocab(m)) == (c.padded > 0 ? c.padded : c.parameters));
  }
  // The other presets have no vocabulary of their own.
  for (const std::string& name : preset_names()) {
    CAPTURE(name);
    const auto listed = std::find_if(cases.begin(), cases.end(), [&](const Case& c) { return name == c.name; });
    CHECK((listed != cases.end() || preset(name).vocab == 0));
  }
}

TEST_CASE("every preset is a legal run spec", "[config][presets]") {
  for (const std::string& name : preset_names()) {
    CAPTURE(name);
    std::vector<std::string> sets = {"model.preset=" + name};
    if (name == "phi-3-medium-128k") {  // its short factors must be given by the user
      std::string ones = "1";
      for (int i = 1; i < 64; ++i) ones += ", 1";
      sets.push_back("model.rope.short_factor=[" + ones + "]");
    }
    RunSpec spec;
    REQUIRE_NOTHROW(spec = parse_run_spec("{}", name, sets));
    CHECK(spec.model.name == name);
    CHECK(parse_run_spec(dump(spec), "dump") == spec);
  }
}

TEST_CASE("parameters per layer match the published counts", "[config]") {
  CHECK(parameters_per_layer(preset("gpt2")) == 12 * 768 * 768 + 13 * 768);
  CHECK(parameters_per_layer(preset("llama-2-7b")) == 202383360);
  CHECK(parameters_per_layer(preset("llama-2-13b")) == 317204480);
  CHECK(parameters_per_layer(preset("llama-2-70b")) == 855654400);
  CHECK(parameters_per_layer(preset("llama-3-8b")) == 218112000);
  CHECK(parameters_per_layer(preset("llama-3-70b")) == 855654400);
  CHECK(parameters_per_layer(preset("llama-3.2-1b")) == 60821504);
  CHECK(parameters_per_layer(preset("llama-3.2-3b")) == 100669440);
  CHECK(parameters_per_layer(preset("phi-3-mini-4k")) == 113252352);
  CHECK(parameters_per_layer(preset("phi-3-medium-4k")) == 340797440);
  CHECK(parameters_per_layer(preset("phi-3-small-8k")) == 218163200);
}

TEST_CASE("presets have the published architectures", "[config][presets]") {
  const ModelSection mini = preset("phi-3-mini-128k"), medium = preset("phi-3-medium-128k"),
                     small = preset("phi-3-small-8k");
  CHECK(mini.head_dim == 96);
  CHECK(mini.rope.kind == RopeKind::longrope);
  CHECK((mini.rope.short_factor.size() == 48 && mini.rope.long_factor.size() == 48));
  CHECK((mini.rope.long_factor.front() == 1.0700000524520874 && mini.rope.long_factor.back() == 64.76000213623047));
  CHECK((mini.rope.short_factor.front() == 1.1 && mini.rope.short_factor.back() == 3.05));
  CHECK((medium.rope.short_factor.empty() && medium.rope.long_factor.size() == 64));
  CHECK((preset("phi-3-mini-4k").sliding_window == 2047 && preset("phi-3-medium-4k").kv_heads == 10));
  CHECK(small.masked_ids.size() == 91);
  CHECK((small.mup.embedding == 10 && small.mup.width == 8 && small.mup.attention == 1 && small.rope.theta == 1e6));
  CHECK((small.blocksparse == BlocksparseSpec{} && small.tied_embeddings && small.gegelu_limit == 20));
  for (const char* name : {"llama-3.1-8b", "llama-3.1-70b", "llama-3.2-1b", "llama-3.2-3b"}) {
    const RopeSpec rope = preset(name).rope;
    CHECK((rope.kind == RopeKind::llama3 && rope.theta == 500000 && rope.original_max_position == 8192));
    CHECK((rope.low_freq_factor == 1 && rope.high_freq_factor == 4));
    CHECK(rope.factor == (std::string(name).find("3.2") != std::string::npos ? 32 : 8));
  }
}

TEST_CASE("FLOPs of GPT-2 124M at 1024 tokens match four conventions", "[config][flops]") {
  const ModelSection m = preset("gpt2");
  CHECK(flops_per_token(m, 1024, AttentionCount::full) == 854438400);
  CHECK(megatron_flops_per_token(m, 1024) == Approx(854438400).epsilon(1e-15));
  CHECK(nanogpt_flops_per_token(m, 1024) == 855166464);
  CHECK(llmc_flops_per_token(m, 1024) == 803478528);
  CHECK(model_flops_per_token(m, 1024) == flops_per_token(m, 1024, AttentionCount::causal));
}

TEST_CASE("FLOPs per token with full and causal attention match reference values", "[config][flops]") {
  struct Case {
    const char* name;
    int64_t seq_len;
    double full, causal;
  };
  const auto c = GENERATE(values<Case>({{"gpt2-xl", 1024, 1.0274e10, 9.802e9},
                                        {"llama-2-7b", 4096, 4.608e10, 4.286e10},
                                        {"llama-3-8b", 8192, 5.791e10, 5.147e10},
                                        {"phi-3-mini-4k", 4096, 2.717e10, 2.475e10},
                                        {"phi-3-medium-4k", 4096, 9.284e10, 8.781e10},
                                        {"phi-3-small-8k", 8192, 5.723e10, 5.078e10}}));
  CAPTURE(c.name);
  const ModelSection m = preset(c.name);
  CHECK(flops_per_token(m, c.seq_len, AttentionCount::full) == Approx(c.full).epsilon(2e-4));
  CHECK(flops_per_token(m, c.seq_len, AttentionCount::causal) == Approx(c.causal).epsilon(2e-4));
}

TEST_CASE("mean keys of sliding windows and blocksparse layers equal a count over the mask", "[config][flops]") {
  // A query's own key counts half, so that causal is T/2.
  const auto counted = [](int64_t seq_len, auto&& sees) {
    double pairs = 0;
    for (int64_t q = 0; q < seq_len; ++q)
      for (int64_t k = 0; k <= q; ++k) pairs += !sees(q, k) ? 0 : 1;
    return pairs / static_cast<double>(seq_len);
  };
  ModelSection phi3 = preset("phi-3-mini-4k");
  phi3.sliding_window = 100;
  const double window = counted(333, [](int64_t q, int64_t k) { return q - k < 100; });
  CHECK(mean_keys(phi3, 0, 333, AttentionCount::pattern) == Approx(window - 0.5).epsilon(1e-12));
  CHECK(mean_keys(phi3, 0, 64, AttentionCount::pattern) == 32);

  ModelSection small = preset("phi-3-small-8k");
  small.heads = 4;
  small.blocksparse = {.block = 4, .local_blocks = 3, .vertical_stride = 8, .dense_every = 2, .homo_heads = false};
  for (const int64_t seq_len : {97, 12, 11, 128}) {
    double mean = 0;
    for (int64_t head = 0; head < 4; ++head) {
      const int64_t step = 2;  // vertical_stride / heads
      mean += counted(seq_len,
                      [&](int64_t q, int64_t k) { return q / 4 - k / 4 < 3 || (k / 4 + head * step + 1) % 8 == 0; }) /
              4;
    }
    CAPTURE(seq_len);
    CHECK(mean_keys(small, 0, seq_len, AttentionCount::pattern) == Approx(mean - 0.5).epsilon(1e-12));
    CHECK(mean_keys(small, 1, seq_len, AttentionCount::pattern) == static_cast<double>(seq_len) / 2);
  }
}

TEST_CASE("phi-3-small's blocksparse layers at 8192 tokens have the published fraction of blocks", "[config][flops]") {
  // Heads 0 to 7 keep 2670, 2684, ... 2768 of 8256 causal blocks of 64 x 64, 128 of them on the diagonal (half full).
  const double blocks = (2670.0 + 2768.0) / 2 - 64;
  const ModelSection m = preset("phi-3-small-8k");
  CHECK(mean_keys(m, 0, 8192, AttentionCount::pattern) == Approx(blocks * 64 * 64 / 8192).epsilon(1e-12));
}

}  // namespace fp
