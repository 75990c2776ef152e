#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "config/hf/hf_config.h"
#include "config/model_facts.h"

namespace fp {
namespace {

using Out = nlohmann::ordered_json;

Out gpt2_config(const ModelSection& m) {
  if (m.dropout_residual != m.dropout_ffn)
    throw DataError(
        fmt::format("model.dropout_residual: {} and dropout_ffn: {}: GPT-2's config.json has one key, "
                    "resid_pdrop, for both; set them equal to export",
                    m.dropout_residual, m.dropout_ffn));
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"n_embd", m.hidden},
          {"n_layer", m.layers},
          {"n_head", m.heads},
          {"n_positions", m.max_position},
          {"n_ctx", m.max_position},
          {"n_inner", m.ffn == 4 * m.hidden ? Out() : Out(m.ffn)},
          {"vocab_size", m.vocab},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", m.norm_eps},
          {"initializer_range", m.init_std},
          {"embd_pdrop", m.dropout_embedding},
          {"attn_pdrop", m.dropout_attention},
          {"resid_pdrop", m.dropout_residual},
          {"tie_word_embeddings", m.tied_embeddings}};
}

Out llama_like_config(const ModelSection& m, const char* type, const char* architecture) {
  return {{"architectures", {architecture}},
          {"model_type", type},
          {"hidden_size", m.hidden},
          {"intermediate_size", m.ffn},
          {"num_hidden_layers", m.layers},
          {"num_attention_heads", m.heads},
          {"num_key_value_heads", m.kv_heads},
          {"vocab_size", m.vocab},
          {"max_position_embeddings", m.max_position},
          {"rms_norm_eps", m.norm_eps},
          {"hidden_act", "silu"},
          {"initializer_range", m.init_std},
          {"tie_word_embeddings", m.tied_embeddings},
          {"attention_bias", false},
          {"attention_dropout", m.dropout_attention},
          {"rope_theta", m.rope.theta},
          {"rope_scaling", nullptr}};
}

void require_attention_dropout_only(const ModelSection& m) {
  if (m.dropout_embedding > 0 || m.dropout_residual > 0 || m.dropout_ffn > 0)
    throw DataError(fmt::format(
        "model.dropout_*: the config.json of family {} knows dropout on attention only; set the others to 0",
        m.family));
}

Out qwen2_config(const ModelSection& m) {
  require_attention_dropout_only(m);
  Out c = llama_like_config(m, "qwen2", "Qwen2ForCausalLM");
  c.erase("attention_bias");  // not a key of its class: the biases belong to the family
  c["use_sliding_window"] = false;
  return c;
}

Out mistral_config(const ModelSection& m) {
  require_attention_dropout_only(m);
  Out c = llama_like_config(m, "mistral", "MistralForCausalLM");
  c.erase("attention_bias");  // not a key of its class, nor is rope_scaling
  c.erase("rope_scaling");
  c["head_dim"] = m.head_dim;
  c["sliding_window"] = m.sliding_window > 0 ? Out(m.sliding_window) : Out();
  return c;
}

Out qwen3_config(const ModelSection& m) {
  require_attention_dropout_only(m);
  Out c = llama_like_config(m, "qwen3", "Qwen3ForCausalLM");
  c["head_dim"] = m.head_dim;
  c["use_sliding_window"] = false;
  return c;
}

Out llama_config(const ModelSection& m) {
  require_attention_dropout_only(m);
  Out c = llama_like_config(m, "llama", "LlamaForCausalLM");
  c["head_dim"] = m.head_dim;
  c["mlp_bias"] = false;
  const RopeSpec& r = m.rope;
  if (r.kind == RopeKind::linear)
    c["rope_scaling"] = {{"rope_type", "linear"}, {"type", "linear"}, {"factor", r.factor}};
  if (r.kind == RopeKind::llama3)
    c["rope_scaling"] = {{"rope_type", "llama3"},
                         {"factor", r.factor},
                         {"low_freq_factor", r.low_freq_factor},
                         {"high_freq_factor", r.high_freq_factor},
                         {"original_max_position_embeddings", r.original_max_position}};
  return c;
}

Out longrope_config(const RopeSpec& r) {
  return {{"type", "longrope"}, {"short_factor", r.short_factor}, {"long_factor", r.long_factor}};
}

Out phi3_config(const ModelSection& m) {
  if (m.dropout_residual != m.dropout_ffn)
    throw DataError(
        fmt::format("model.dropout_residual: {} and dropout_ffn: {}: phi-3's config.json has one key, "
                    "resid_pdrop, for both; set them equal to export",
                    m.dropout_residual, m.dropout_ffn));
  Out c = llama_like_config(m, "phi3", "Phi3ForCausalLM");
  const bool longrope = m.rope.kind == RopeKind::longrope;
  c["original_max_position_embeddings"] = longrope ? m.rope.original_max_position : m.max_position;
  c["sliding_window"] = m.sliding_window > 0 ? Out(m.sliding_window) : Out();
  c["embd_pdrop"] = m.dropout_embedding;
  c["resid_pdrop"] = m.dropout_residual;
  if (!longrope) return c;
  // transformers accepts exactly three fields and derives the factor on cos and sin from the lengths.
  const double derived = longrope_attention_factor(m.rope, m.max_position);
  if (m.rope.attention_factor && std::abs(*m.rope.attention_factor - derived) > 1e-12)
    throw DataError(fmt::format("model.rope.attention_factor: {}: phi-3's config.json cannot express it; legal: {}",
                                *m.rope.attention_factor, derived));
  if (!m.rope.scale_short)
    throw DataError("model.rope.scale_short: false: phi-3's class scales short sequences too; legal: true");
  c["rope_scaling"] = longrope_config(m.rope);
  return c;
}

Out phi3small_config(const ModelSection& m) {
  Out c = {{"architectures", {"Phi3SmallForCausalLM"}},
           {"model_type", "phi3small"},
           {"hidden_size", m.hidden},
           {"ff_intermediate_size", m.ffn},
           {"num_hidden_layers", m.layers},
           {"num_attention_heads", m.heads},
           {"num_key_value_heads", m.kv_heads},
           {"vocab_size", m.vocab},
           {"max_position_embeddings", m.max_position},
           {"layer_norm_epsilon", m.norm_eps},
           {"hidden_act", "gegelu"},
           {"gegelu_limit", m.gegelu_limit},
           {"gegelu_pad_to_256", true},
           {"pad_sequence_to_multiple_of_64", true},
           {"initializer_range", m.init_std},
           {"tie_word_embeddings", m.tied_embeddings},
           {"attention_dropout_prob", m.dropout_attention},
           {"embedding_dropout_prob", m.dropout_embedding},
           {"ffn_dropout_prob", m.dropout_ffn},
           {"rope_embedding_base", m.rope.theta},
           {"rope_position_scale", m.rope.position_scale},
           {"rope_scaling", nullptr},
           {"mup_use_scaling", true},
           {"mup_embedding_multiplier", m.mup.embedding},
           {"mup_width_multiplier", m.mup.width},
           {"mup_attn_multiplier", m.mup.attention > 0 ? m.mup.attention : std::sqrt(static_cast<double>(m.head_dim))},
           {"dummy_token_indices", m.masked_ids},
           {"dense_attention_every_n_layers", std::max<int64_t>(m.blocksparse.dense_every, 1)},  // 0: all are dense
           {"blocksparse_block_size", m.blocksparse.block},
           {"blocksparse_num_local_blocks", m.blocksparse.local_blocks},
           {"blocksparse_vert_stride", m.blocksparse.vertical_stride},
           {"blocksparse_homo_head_pattern", m.blocksparse.homo_heads},
           {"blocksparse_triton_kernel_block_size", m.blocksparse.block}};
  if (m.rope.kind == RopeKind::longrope) {
    if (m.rope.scale_short)
      throw DataError("model.rope.scale_short: true: phi-3-small's class scales long sequences only; legal: false");
    c["original_max_position_embeddings"] = m.rope.original_max_position;
    c["rope_scaling"] = longrope_config(m.rope);
    c["rope_scaling"]["short_mscale"] = 1.0;
    c["rope_scaling"]["long_mscale"] =
        m.rope.attention_factor.value_or(longrope_attention_factor(m.rope, m.max_position));
    c["rope_scaling"]["original_max_position_embeddings"] = m.rope.original_max_position;
  }
  return c;
}

}  // namespace

Out to_hf_config(const ModelSection& m) {
  if (!m.masked_ids.empty() && !m.traits().hf_masked_ids)
    throw DataError(
        fmt::format("model.masked_ids: {} ids: the config.json of family {} cannot express them; legal: none",
                    m.masked_ids.size(), m.family));
  switch (m.family) {
    case Family::gpt:
      return gpt2_config(m);
    case Family::llama:
      return llama_config(m);
    case Family::phi3:
      return phi3_config(m);
    case Family::phi3small:
      return phi3small_config(m);
    case Family::qwen2:
      return qwen2_config(m);
    case Family::mistral:
      return mistral_config(m);
    case Family::qwen3:
      return qwen3_config(m);
  }
  throw InternalError("unknown family");
}

}  // namespace fp
