// GPT-2 and GPT-3: learned positions, LayerNorm and biases everywhere, GELU (tanh form), head tied to the embedding.
#include "model/families/families.h"

namespace fp::families {

ModelIds declare_gpt(const ModelSection& m, ParamTable& table) {
  const Declare d{m, table};
  ModelIds ids;
  ids.embedding.tokens = table.add("wte.weight", {m.vocab, m.hidden}, d.vocabulary(), d.normal());
  table.begin_unit();
  ids.embedding.positions = table.add("wpe.weight", {m.max_position, m.hidden}, Partition::replicated(), d.normal());
  for (int l = 0; l < m.layers; ++l) {
    const std::string h = "h." + std::to_string(l) + ".";
    BlockIds b;
    b.norm1 = d.norm(h + "ln_1", true, l);
    b.attention.qkv =
        d.linear(h + "attn.c_attn", d.q_rows() + 2 * d.kv_rows(), m.hidden, d.heads_then_heads(), d.normal(), true, l);
    b.attention.proj =
        d.linear(h + "attn.c_proj", m.hidden, d.q_rows(), Partition::cut(1, {d.q_piece()}), d.residual(), true, l);
    b.norm2 = d.norm(h + "ln_2", true, l);
    b.mlp.up = d.linear(h + "mlp.c_fc", m.ffn, m.hidden, Partition::cut(0, {{m.ffn, m.ffn, 0}}), d.normal(), true, l);
    b.mlp.down =
        d.linear(h + "mlp.c_proj", m.hidden, m.ffn, Partition::cut(1, {{m.ffn, m.ffn, 0}}), d.residual(), true, l);
    ids.blocks.push_back(b);
  }
  ids.head.norm = d.norm("ln_f", true, -1);
  ids.head.projection = d.head(ids.embedding.tokens);
  return ids;
}

}  // namespace fp::families
