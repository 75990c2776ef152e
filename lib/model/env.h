// What every part of a model works with: the architecture, its parameters, the device and its memory.
#pragma once

#include "model/architecture.h"
#include "model/groups.h"

namespace fp {

// Which activations are kept for the backward pass; the rest is computed again. Same numbers under each.
enum class Recompute : uint8_t {
  none,       // keep everything
  selective,  // recompute norms and activation functions: cheap to compute, large to keep
  full,       // keep each block's input only
};

// Device tensors of one micro-batch of B samples of T tokens (M = B*T).
struct MicroBatch {
  int64_t samples = 0, tokens = 0;  // B, T
  Tensor ids, targets, positions;   // i32 [M]; targets -1: ignored
  Tensor doc_start;                 // i32 [B,T], or empty: no masking between documents
  Tensor sample_ids;                // i32 [B,2], low and high words of the global sample index
  bool training = false;            // dropout applies, and a backward pass will follow
  int64_t rows() const { return samples * tokens; }
};

struct ModelEnv {
  const Architecture* arch = nullptr;
  const ModelIds* ids = nullptr;
  ParamStore* params = nullptr;
  Ops* ops = nullptr;
  Arena* arena = nullptr;
  Group* tensor_group = nullptr;
  Rope rope;
  Tensor masked_ids;  // i32, may be empty
  Recompute recompute = Recompute::none;
  uint64_t seed = 0;

  ArenaTensor alloc(const Shape& s) const { return arena->alloc(params->compute(), s); }
  ArenaTensor alloc_f32(const Shape& s) const { return arena->alloc(DType::f32, s); }
  Tensor weight(ParamId id) const { return id < 0 ? Tensor{} : params->weight(id); }

  void linear(const Tensor& y, const Tensor& x, const LinearIds& l) const {
    ops->linear(y, x, params->weight(l.first, l.last), weight(l.bias));
  }
  void linear_backward_input(const Tensor& dx, const Tensor& dy, const LinearIds& l) const {
    ops->linear_backward_input(dx, dy, params->weight(l.first, l.last));
  }
  void linear_gelu(const Tensor& y, const Tensor& u, const Tensor& x, const LinearIds& l) const {
    ops->linear_gelu(y, u, x, params->weight(l.first, l.last), weight(l.bias));
  }
  void linear_backward_input_gelu(const Tensor& du, const Tensor& dy, const Tensor& u, const LinearIds& l) const {
    ops->linear_backward_input_gelu(du, dy, params->weight(l.first, l.last), u);
  }
  void linear_backward_weight(const Tensor& dy, const Tensor& x, const LinearIds& l) const;
  void norm(const Tensor& y, const Tensor& sum, const Tensor& stats, const Tensor& x, const Tensor& residual,
            const NormIds& n) const {
    ops->norm(y, sum, stats, x, residual, weight(n.gain), weight(n.bias), arch->norm);
  }
  void norm_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& stats, const NormIds& n,
                           Write w) const {
    ops->norm_backward_input(dx, dy, x, stats, weight(n.gain), arch->norm, w);
  }
  void norm_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& stats, const NormIds& n) const;

  Dropout dropout(Purpose purpose, double p, int64_t layer) const {
    return {p, seed, purpose, static_cast<uint32_t>(layer)};
  }
  // In place on x [M,C]; does nothing at p = 0 or outside training.
  void drop(const Tensor& x, const MicroBatch&, const Dropout&) const;
};

}  // namespace fp
