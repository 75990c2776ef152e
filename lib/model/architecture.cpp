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

Norm norm_of(NormKind kind) { return kind == NormKind::layernorm ? Norm::layernorm : Norm::rmsnorm; }

Activation activation_of(MlpKind kind) {
  return kind == MlpKind::gelu ? Activation::gelu : kind == MlpKind::gegelu ? Activation::gegelu : Activation::swiglu;
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
  const FamilyTraits& traits = m.traits();
  a.heads = {m.heads, m.kv_heads, m.head_dim, traits.qkv == QkvLayout::grouped};
  a.norm = {norm_of(traits.norm), m.norm_eps};
  a.activation = {activation_of(traits.mlp), m.gegelu_limit};
  a.rope = m.rope;
  if (traits.learned_positions) a.rope.kind = RopeKind::none;
  a.blocksparse = m.blocksparse;
  a.blocksparse_layers = traits.blocksparse;
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

ModelIds declare_parameters(const ModelSection& m, ParamTable& table) {
  const ModelIds ids = families::declare(m, table);
  if (ids.head.projection == ids.embedding.tokens) table.share_with_head(ids.embedding.tokens);
  return ids;
}

}  // namespace fp
