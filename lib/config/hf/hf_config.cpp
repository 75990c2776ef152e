#include "config/hf/hf_config.h"

#include <algorithm>

#include "base/error.h"
#include "config/hf/hf_keys.h"
#include "config/load.h"
#include "io/json.h"

namespace fp {
namespace {

using nlohmann::json;

void read_gpt2(const HfKeys& c, ModelSection& m) {
  m.family = Family::gpt;
  m.layers = c.integer("n_layer", 12);
  m.hidden = c.integer("n_embd", 768);
  m.heads = c.integer("n_head", 12);
  m.ffn = c.integer("n_inner", 4 * m.hidden);
  m.max_position = c.integer("n_positions", 1024);
  m.norm_eps = c.number("layer_norm_epsilon", 1e-5);
  m.tied_embeddings = c.flag("tie_word_embeddings", true);
  m.dropout_embedding = c.number("embd_pdrop", 0.1);
  m.dropout_attention = c.number("attn_pdrop", 0.1);
  m.dropout_residual = m.dropout_ffn = c.number("resid_pdrop", 0.1);
  c.text_among("activation_function", "gelu_new", {"gelu_new", "gelu_pytorch_tanh"});
  c.must_be("scale_attn_weights", true);
  c.must_be("scale_attn_by_inverse_layer_idx", false);
  c.must_be("add_cross_attention", false);
}

// Reads the keys that llama and phi3 have in common. Their classes differ in what absent keys mean.
struct HfDefaults {
  int64_t kv_heads = 0;  // 0: as many as heads
  double norm_eps = 1e-6;
};
void read_llama_like(const HfKeys& c, ModelSection& m, const HfDefaults& absent = {}) {
  m.layers = c.integer("num_hidden_layers");
  m.hidden = c.integer("hidden_size");
  m.heads = c.integer("num_attention_heads");
  const bool has_default = absent.kv_heads > 0 && !c.given("num_key_value_heads");  // null is as many as heads
  m.kv_heads = c.integer("num_key_value_heads", has_default ? absent.kv_heads : m.heads);
  m.ffn = c.integer("intermediate_size");
  m.head_dim = c.integer("head_dim", 0);
  m.max_position = c.integer("max_position_embeddings");
  m.norm_eps = c.number("rms_norm_eps", absent.norm_eps);
  m.tied_embeddings = c.flag("tie_word_embeddings", false);
  m.dropout_attention = c.number("attention_dropout", 0.0);
  c.text_among("hidden_act", "silu", {"silu", "swish"});
  c.must_be("attention_bias", false);
  c.must_be("mlp_bias", false);
}

// The rotary keys as transformers reads them: those of rope_scaling unless it is empty, else of rope_parameters, and
// the base of rotation in that object or beside it.
struct HfRope {
  explicit HfRope(const HfKeys& c) {
    keys = c.object("rope_scaling");
    if (keys.empty()) keys = c.object("rope_parameters");
    theta = keys.number("rope_theta", c.number("rope_theta", 10000.0));
    kind = keys.has("rope_type") ? keys.text("rope_type", "default") : keys.text("type", "default");
    for (const HfKeys* place : std::initializer_list<const HfKeys*>{&keys, &c})
      if (place->number("partial_rotary_factor", 1.0) != 1.0)
        place->refuse("partial_rotary_factor", "1.0: every dimension of a head is rotated");
  }
  [[noreturn]] void refuse_kind(const std::string& legal) const {
    keys.refuse(keys.has("rope_type") ? "rope_type" : "type", legal);
  }
  HfKeys keys;
  double theta = 0;
  std::string kind;
};

void read_llama(const HfKeys& c, ModelSection& m) {
  m.family = Family::llama;
  read_llama_like(c, m);
  const HfRope rope(c);
  m.rope.theta = rope.theta;
  if (rope.kind == "linear") {
    m.rope.kind = RopeKind::linear;
    m.rope.factor = rope.keys.number("factor");
  } else if (rope.kind == "llama3") {
    m.rope.kind = RopeKind::llama3;
    m.rope.factor = rope.keys.number("factor");
    m.rope.low_freq_factor = rope.keys.number("low_freq_factor");
    m.rope.high_freq_factor = rope.keys.number("high_freq_factor");
    m.rope.original_max_position = rope.keys.integer("original_max_position_embeddings");
  } else if (rope.kind != "default") {
    rope.refuse_kind("default, linear, llama3");
  }
}

void read_standard_rope(const HfKeys& c, ModelSection& m) {
  const HfRope rope(c);
  m.rope.theta = rope.theta;
  if (rope.kind != "default") rope.refuse_kind("default");
}

void read_qwen2(const HfKeys& c, ModelSection& m) {
  m.family = Family::qwen2;
  read_llama_like(c, m, {.kv_heads = 32});
  c.must_be("use_sliding_window", false);
  read_standard_rope(c, m);
}

void read_mistral(const HfKeys& c, ModelSection& m) {
  m.family = Family::mistral;
  read_llama_like(c, m, {.kv_heads = 8});
  // Without the key its class has a window; null is none.
  m.sliding_window = c.integer("sliding_window", c.given("sliding_window") ? 0 : 4096);
  read_standard_rope(c, m);
}

void read_qwen3(const HfKeys& c, ModelSection& m) {
  m.family = Family::qwen3;
  read_llama_like(c, m, {.kv_heads = 32});
  m.head_dim = c.integer("head_dim", 128);
  c.must_be("use_sliding_window", false);
  read_standard_rope(c, m);
}

void read_longrope(const HfKeys& c, const HfRope& rope, ModelSection& m) {
  m.rope.kind = RopeKind::longrope;
  m.rope.short_factor = rope.keys.numbers("short_factor");
  m.rope.long_factor = rope.keys.numbers("long_factor");
  const int64_t in_block = rope.keys.integer("original_max_position_embeddings", 4096);
  m.rope.original_max_position = c.integer("original_max_position_embeddings", in_block);
  if (rope.keys.has("attention_factor")) m.rope.attention_factor = rope.keys.number("attention_factor");
}

void read_phi3(const HfKeys& c, ModelSection& m) {
  m.family = Family::phi3;
  read_llama_like(c, m, {.norm_eps = 1e-5});
  m.sliding_window = c.integer("sliding_window", 0);
  m.dropout_embedding = c.number("embd_pdrop", 0.0);
  m.dropout_residual = m.dropout_ffn = c.number("resid_pdrop", 0.0);
  const HfRope rope(c);
  m.rope.theta = rope.theta;
  // Early files call longrope su or yarn.
  if (rope.kind == "longrope" || rope.kind == "su" || rope.kind == "yarn")
    read_longrope(c, rope, m);
  else if (rope.kind != "default")
    rope.refuse_kind("default, longrope, su, yarn");
}

void read_phi3small(const HfKeys& c, ModelSection& m) {
  m.family = Family::phi3small;
  m.layers = c.integer("num_hidden_layers");
  m.hidden = c.integer("hidden_size");
  m.heads = c.integer("num_attention_heads");
  m.kv_heads = c.integer("num_key_value_heads", m.heads);
  m.ffn = c.integer("ff_intermediate_size");
  m.max_position = c.integer("max_position_embeddings");
  m.norm_eps = c.number("layer_norm_epsilon", 1e-5);
  m.tied_embeddings = c.flag("tie_word_embeddings", true);
  c.not_null("gegelu_limit", "a number: activations without a limit are not supported");
  c.not_null("dense_attention_every_n_layers", "a whole number: blocksparse attention in every layer is not supported");
  if (c.integer("dense_attention_every_n_layers", 2) == 0)
    c.refuse("dense_attention_every_n_layers", "1 or more: blocksparse attention in every layer is not supported");
  m.gegelu_limit = c.number("gegelu_limit", 20.0);
  m.dropout_embedding = c.number("embedding_dropout_prob", 0.1);
  m.dropout_attention = c.number("attention_dropout_prob", 0.0);
  m.dropout_ffn = c.number("ffn_dropout_prob", 0.1);
  m.masked_ids = c.integers("dummy_token_indices");
  m.blocksparse = {c.integer("blocksparse_block_size", 64), c.integer("blocksparse_num_local_blocks", 16),
                   c.integer("blocksparse_vert_stride", 8), c.integer("dense_attention_every_n_layers", 2),
                   c.flag("blocksparse_homo_head_pattern", false)};
  if (c.flag("mup_use_scaling", true))
    m.mup = {c.number("mup_embedding_multiplier", 10.0), c.number("mup_width_multiplier", 8.0),
             c.number("mup_attn_multiplier", 1.0)};
  c.text_among("hidden_act", "gegelu", {"gegelu"});
  m.rope.theta = c.number("rope_embedding_base", 1e6);
  m.rope.position_scale = c.number("rope_position_scale", 1.0);
  if (!c.has("rope_scaling")) return;
  const HfRope rope(c);
  if (rope.kind != "longrope" && rope.kind != "su") rope.refuse_kind("longrope, su");
  read_longrope(c, rope, m);
  m.rope.scale_short = false;  // the published code scales cos and sin for long sequences only
  if (rope.keys.number("short_mscale", 1.0) != 1.0) rope.keys.refuse("short_mscale", "1.0");
  if (rope.keys.has("long_mscale")) m.rope.attention_factor = rope.keys.number("long_mscale");
}

// By model_type.
struct Reader {
  std::string_view type;
  void (*read)(const HfKeys&, ModelSection&);
};
constexpr Reader kReaders[] = {{"gpt2", read_gpt2},           {"llama", read_llama}, {"phi3", read_phi3},
                               {"phi3small", read_phi3small}, {"qwen2", read_qwen2}, {"mistral", read_mistral},
                               {"qwen3", read_qwen3}};

std::string model_types() {
  std::string list;
  for (const Reader& r : kReaders) list += (list.empty() ? "" : ", ") + std::string(r.type);
  return list;
}

}  // namespace

ModelSection model_from_hf_config(const std::string& text, const std::string& where) {
  const json j = parse_json(text, where);
  if (!j.is_object()) throw DataError(fmt::format("{}: is not a JSON object", where));
  const HfKeys c(j, where, "");
  if (c.has("quantization_config")) c.refuse("quantization_config", "unquantized weights");
  RunSpec spec;
  ModelSection& m = spec.model;
  const std::string type = c.text("model_type", "");
  const auto reader =
      std::find_if(std::begin(kReaders), std::end(kReaders), [&](const Reader& r) { return r.type == type; });
  if (reader == std::end(kReaders)) c.refuse("model_type", model_types());
  reader->read(c, m);
  m.vocab = c.integer("vocab_size", type == "gpt2" ? 50257 : -1);
  if (m.vocab < 1) c.refuse("vocab_size", "1 or more");
  m.init_std = c.number("initializer_range", 0.02);
  m.name = type;
  spec.data.seq_len = std::min(spec.data.seq_len, std::max<int64_t>(m.max_position, 1));
  try {
    resolve(spec);
    validate(spec);
  } catch (const ConfigError& e) {
    throw DataError(fmt::format("{}: describes no model that fptrain can build: {}", where, e.what()));
  }
  return m;
}

}  // namespace fp
