#include <cmath>

#include "config/model_facts.h"
#include "model/families/families.h"

namespace fp::families {

ModelIds declare(const ModelSection& m, ParamTable& table) {
  switch (m.family) {
    case Family::gpt:
      return declare_gpt(m, table);
    case Family::llama:
    case Family::qwen2:
    case Family::mistral:
    case Family::qwen3:
      return declare_llama(m, table);
    case Family::phi3:
      return declare_phi3(m, table);
    case Family::phi3small:
      return declare_phi3small(m, table);
  }
  throw InternalError("unknown family");
}

InitRule Declare::residual() const {
  return {InitRule::Kind::normal,
          m.scaled_residual_init ? m.init_std / std::sqrt(2.0 * static_cast<double>(m.layers)) : m.init_std};
}

Partition Declare::vocabulary() const {
  const int64_t padded = padded_vocab(m);
  return Partition::cut(0, {{m.vocab, padded, padded}});
}

Partition Declare::heads_then_heads() const { return Partition::cut(0, {q_piece(), kv_piece(), kv_piece()}); }

LinearIds Declare::separate_qkv(const std::string& prefix, int layer) const {
  const Partition q = Partition::cut(0, {q_piece()}), kv = Partition::cut(0, {kv_piece()});
  // Returns the first of three joined parameters; columns 0: vectors.
  const auto add_three = [&](const std::string& suffix, int64_t columns, const InitRule& init) {
    const auto shape = [&](int64_t rows) { return columns > 0 ? Shape{rows, columns} : Shape{rows}; };
    const ParamId first = table.add(prefix + "q_proj" + suffix, shape(q_rows()), q, init, layer);
    table.add(prefix + "k_proj" + suffix, shape(kv_rows()), kv, init, layer, true);
    table.add(prefix + "v_proj" + suffix, shape(kv_rows()), kv, init, layer, true);
    return first;
  };
  LinearIds ids;
  ids.first = add_three(".weight", m.hidden, normal());
  ids.last = ids.first + 2;
  if (!m.traits().qkv_bias) return ids;
  ids.bias = add_three(".bias", 0, {InitRule::Kind::zeros, 0.0});
  ids.last_bias = ids.bias + 2;
  return ids;
}

NormIds Declare::norm(const std::string& name, bool with_bias, int layer) const {
  NormIds ids;
  ids.gain = vector(name + ".weight", m.hidden, InitRule::Kind::ones, layer);
  if (with_bias) ids.bias = vector(name + ".bias", m.hidden, InitRule::Kind::zeros, layer);
  for (const ParamId id : {ids.gain, ids.bias})
    if (id >= 0) table.set_sum(id, GradientSum::rows);
  return ids;
}

NormIds Declare::head_norm(const std::string& name, int layer) const {
  NormIds ids;
  ids.gain = vector(name + ".weight", m.head_dim, InitRule::Kind::ones, layer);
  table.set_sum(ids.gain, GradientSum::heads);
  return ids;
}

ParamId Declare::head(ParamId embedding) const {
  if (m.tied_embeddings) return embedding;
  return table.add("lm_head.weight", {m.vocab, m.hidden}, vocabulary(), normal());
}

LinearIds Declare::linear(const std::string& name, int64_t out, int64_t in, const Partition& cut, const InitRule& init,
                          bool with_bias, int layer) const {
  LinearIds ids;
  ids.first = ids.last = table.add(name + ".weight", {out, in}, cut, init, layer);
  if (with_bias)
    ids.bias = ids.last_bias =
        vector(name + ".bias", out, InitRule::Kind::zeros, layer, cut.dim == 0 ? cut : Partition::replicated());
  return ids;
}

}  // namespace fp::families
