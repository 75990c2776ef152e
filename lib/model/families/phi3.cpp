// phi-3 mini and medium: as Llama, with Q, K, V fused into qkv_proj and gate, up into gate_up_proj; LongRoPE; sliding
// window.
#include "model/families/families.h"

namespace fp::families {

ModelIds declare_phi3(const ModelSection& m, ParamTable& table) {
  const Declare d{m, table};
  const Piece f{m.ffn, m.ffn, 0};
  ModelIds ids;
  ids.embedding.tokens = table.add("model.embed_tokens.weight", {m.vocab, m.hidden}, d.vocabulary(), d.normal());
  for (int l = 0; l < m.layers; ++l) {
    const std::string p = "model.layers." + std::to_string(l) + ".";
    BlockIds b;
    b.norm1 = d.norm(p + "input_layernorm", false, l);
    b.attention.qkv = d.linear(p + "self_attn.qkv_proj", d.q_rows() + 2 * d.kv_rows(), m.hidden, d.heads_then_heads(),
                               d.normal(), false, l);
    b.attention.proj = d.linear(p + "self_attn.o_proj", m.hidden, d.q_rows(), Partition::cut(1, {d.q_piece()}),
                                d.residual(), false, l);
    b.norm2 = d.norm(p + "post_attention_layernorm", false, l);
    b.mlp.up = d.linear(p + "mlp.gate_up_proj", 2 * m.ffn, m.hidden, Partition::cut(0, {f, f}), d.normal(), false, l);
    b.mlp.down = d.linear(p + "mlp.down_proj", m.hidden, m.ffn, Partition::cut(1, {f}), d.residual(), false, l);
    ids.blocks.push_back(b);
  }
  ids.head.norm = d.norm("model.norm", false, -1);
  ids.head.projection = d.head(ids.embedding.tokens);
  return ids;
}

}  // namespace fp::families
