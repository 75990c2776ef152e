#include "model/architecture.h"

#include <cmath>

#include "config/model_facts.h"
#include "model/families/families.h"

namespace fp {

AttentionSpec Architecture::attention(int64_t l) const {
  AttentionSpec s;
  s.scale = attention_scale;
  s.window = sliding_window;
  if (!dense_layer(l)) {
    s.block = blocksparse.block;
    s.local_blocks = blocksparse.local_blocks;
    s.vertical_stride = blocksparse.vertical_stride;
    s.head_step = blocksparse.homo_heads ? 0 : std::max<int64_t>(1, blocksparse.vertical_stride / heads.heads);
  }
  return s;
}

Architecture make_architecture(const ModelSection& m) {
  FP_CHECK(m.vocab > 0 && m.kv_heads > 0 && m.head_dim > 0 && m.ffn > 0, "model section is not resolved");
  Architecture a;
  a.layers = m.layers;
  a.hidden = m.hidden;
  a.ffn = m.ffn;
  a.vocab = m.vocab;
  a.padded_vocab = padded_vocab(m);
  a.max_position = m.max_position;
  a.heads = {m.heads, m.kv_heads, m.head_dim, m.family == Family::phi3small};
  const bool layernorm = m.family == Family::gpt || m.family == Family::phi3small;
  a.norm = {layernorm ? Norm::layernorm : Norm::rmsnorm, m.norm_eps};
  a.linear_bias = layernorm;
  a.activation = {m.family == Family::gpt         ? Activation::gelu
                  : m.family == Family::phi3small ? Activation::gegelu
                                                  : Activation::swiglu,
                  m.gegelu_limit};
  a.rope = m.rope;
  if (m.family == Family::gpt) a.rope.kind = RopeKind::none;
  a.blocksparse = m.blocksparse;
  a.blocksparse_layers = m.family == Family::phi3small;
  a.sliding_window = m.sliding_window;
  const auto d = static_cast<double>(m.head_dim);
  a.attention_scale = m.mup.attention > 0 ? m.mup.attention / d : 1.0 / std::sqrt(d);
  a.embedding_scale = m.mup.embedding;
  a.logit_scale = 1.0 / m.mup.width;
  a.masked_ids = m.masked_ids;
  a.dropout_embedding = m.dropout_embedding;
  a.dropout_attention = m.dropout_attention;
  a.dropout_residual = m.dropout_residual;
  a.dropout_ffn = m.dropout_ffn;
  return a;
}

namespace {

ModelIds declare_family(const ModelSection& m, ParamTable& table) {
  switch (m.family) {
    case Family::gpt:
      return families::declare_gpt(m, table);
    case Family::llama:
      return families::declare_llama(m, table);
    case Family::phi3:
      return families::declare_phi3(m, table);
    case Family::phi3small:
      return families::declare_phi3small(m, table);
  }
  throw InternalError("unknown family");
}

}  // namespace

ModelIds declare_parameters(const ModelSection& m, ParamTable& table) {
  const ModelIds ids = declare_family(m, table);
  if (ids.head.projection == ids.embedding.tokens) table.share_with_head(ids.embedding.tokens);
  return ids;
}

}  // namespace fp
