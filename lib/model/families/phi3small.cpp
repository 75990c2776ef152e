// phi-3-small: LayerNorm and biases, QKV interleaved per kv group, gegelu on interleaved rows, muP multipliers,
// blocksparse attention in every other layer, tied head. Its published init scales down_proj only: the attention output
// is named "dense".
#include "model/families/families.h"

namespace fp::families {

ModelIds declare_phi3small(const ModelSection& m, ParamTable& table) {
  const Declare d{m, table};
  const int64_t qkv_rows = d.q_rows() + 2 * d.kv_rows();
  ModelIds ids;
  ids.embedding.tokens = table.add("model.embed_tokens.weight", {m.vocab, m.hidden}, d.vocabulary(), d.normal());
  for (int l = 0; l < m.layers; ++l) {
    const std::string p = "model.layers." + std::to_string(l) + ".";
    const Partition groups = Partition::cut(0, {{qkv_rows, m.kv_heads, 0}});
    const Partition pairs = Partition::cut(0, {{2 * m.ffn, m.ffn, 0}});
    BlockIds b;
    b.norm1 = d.norm(p + "input_layernorm", true, l);
    b.attention.qkv = d.linear(p + "self_attn.query_key_value", qkv_rows, m.hidden, groups, d.normal(), true, l);
    b.attention.proj =
        d.linear(p + "self_attn.dense", m.hidden, d.q_rows(), Partition::cut(1, {d.q_piece()}), d.normal(), true, l);
    b.norm2 = d.norm(p + "post_attention_layernorm", true, l);
    b.mlp.up = d.linear(p + "mlp.up_proj", 2 * m.ffn, m.hidden, pairs, d.normal(), true, l);
    b.mlp.down =
        d.linear(p + "mlp.down_proj", m.hidden, m.ffn, Partition::cut(1, {{m.ffn, m.ffn, 0}}), d.residual(), true, l);
    ids.blocks.push_back(b);
  }
  ids.head.norm = d.norm("model.final_layernorm", true, -1);
  ids.head.projection = d.head(ids.embedding.tokens);
  return ids;
}

}  // namespace fp::families
