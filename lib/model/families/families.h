// The model families: parameter names, logical shapes, init and tensor-parallel cuts, as in the published checkpoints
// (GPT-2's transposed Conv1D weights excepted: here every linear weight is (out, in)).
#pragma once

#include <string>

#include "config/run_spec.h"
#include "model/architecture.h"

namespace fp::families {

// Declares the parameters of a model of any family.
ModelIds declare(const ModelSection&, ParamTable&);

ModelIds declare_gpt(const ModelSection&, ParamTable&);
ModelIds declare_llama(const ModelSection&, ParamTable&);
ModelIds declare_phi3(const ModelSection&, ParamTable&);
ModelIds declare_phi3small(const ModelSection&, ParamTable&);

// Helper to declare a model's parameters, shared by the families: dimensions, cuts and init rules.
struct Declare {
  const ModelSection& m;
  ParamTable& table;

  int64_t q_rows() const { return m.heads * m.head_dim; }
  int64_t kv_rows() const { return m.kv_heads * m.head_dim; }
  InitRule normal() const { return {InitRule::Kind::normal, m.init_std}; }
  // Init rule of projections that write into the residual stream.
  InitRule residual() const;
  Partition vocabulary() const;
  Partition heads_then_heads() const;  // [Q | K | V], each cut by its heads
  Piece q_piece() const { return {q_rows(), m.heads, 0, m.kv_heads}; }
  Piece kv_piece() const { return {kv_rows(), m.kv_heads, 0, 0, true}; }

  ParamId vector(const std::string& name, int64_t n, InitRule::Kind kind, int layer, const Partition& cut = {}) const {
    return table.add(name, {n}, cut, {kind, 0.0}, layer);
  }
  // Declares the gain and, `with_bias`, the bias of a norm called `name`.
  NormIds norm(const std::string& name, bool with_bias, int layer) const;
  // Declares the gain of a norm over each attention head, which all heads share.
  NormIds head_norm(const std::string& name, int layer) const;
  // Declares Q, K and V as parameters of their own, used as one matrix; with biases if the family has them.
  LinearIds separate_qkv(const std::string& prefix, int layer) const;
  // Declares the weight of the LM head and returns it; returns `embedding` where the two are tied.
  ParamId head(ParamId embedding) const;
  // Declares an (out, in) weight; `with_bias` adds `name.bias`. The bias of row-parallel weights (dim 1) is replicated.
  LinearIds linear(const std::string& name, int64_t out, int64_t in, const Partition&, const InitRule&, bool with_bias,
                   int layer) const;
};

}  // namespace fp::families
