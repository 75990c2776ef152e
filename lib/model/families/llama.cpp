// Llama 2, 3, 3.1, 3.2 and the families built like it: RMSNorm, rotary positions, grouped-query attention, SwiGLU.
// Q, K, V and gate, up are parameters of their own on file and joined in memory, so that each set is one GEMM.
#include "model/families/families.h"

namespace fp::families {

ModelIds declare_llama(const ModelSection& m, ParamTable& table) {
  const Declare d{m, table};
  ModelIds ids;
  ids.embedding.tokens = table.add("model.embed_tokens.weight", {m.vocab, m.hidden}, d.vocabulary(), d.normal());
  for (int l = 0; l < m.layers; ++l) {
    const std::string p = "model.layers." + std::to_string(l) + ".";
    const Partition f = Partition::cut(0, {{m.ffn, m.ffn, 0}});
    BlockIds b;
    b.norm1 = d.norm(p + "input_layernorm", false, l);
    b.attention.qkv = d.separate_qkv(p + "self_attn.", l);
    if (m.traits().qk_norm) {
      b.attention.q_norm = d.head_norm(p + "self_attn.q_norm", l);
      b.attention.k_norm = d.head_norm(p + "self_attn.k_norm", l);
    }
    b.attention.proj = d.linear(p + "self_attn.o_proj", m.hidden, d.q_rows(), Partition::cut(1, {d.q_piece()}),
                                d.residual(), false, l);
    b.norm2 = d.norm(p + "post_attention_layernorm", false, l);
    b.mlp.up.first = table.add(p + "mlp.gate_proj.weight", {m.ffn, m.hidden}, f, d.normal(), l);
    b.mlp.up.last = table.add(p + "mlp.up_proj.weight", {m.ffn, m.hidden}, f, d.normal(), l, true);
    b.mlp.down =
        d.linear(p + "mlp.down_proj", m.hidden, m.ffn, Partition::cut(1, {{m.ffn, m.ffn, 0}}), d.residual(), false, l);
    ids.blocks.push_back(b);
  }
  ids.head.norm = d.norm("model.norm", false, -1);
  ids.head.projection = d.head(ids.embedding.tokens);
  return ids;
}

}  // namespace fp::families
