// What every part of a model works with: the architecture, its parameters, the device, its memory and the ranks beside.
//
// The model is written for one rank's slice. Column-parallel products give a rank's own columns; row-parallel ones give
// a part of the sum over the tensor-parallel ranks. Between them rows are whole on every rank or, under Megatron
// sequence parallelism, dealt to the ranks: gather() and reduce() are the two ways across, each the other's backward.
#pragma once

#include <vector>

#include "model/architecture.h"
#include "model/groups.h"
#include "model/head_exchange.h"
#include "model/param_store.h"
#include "plan/tokens.h"

namespace fp {

// Which activations are kept for the backward pass; the rest is computed again. Same numbers under each.
enum class Recompute : uint8_t {
  none,       // keep everything
  selective,  // recompute norms and activation functions: cheap to compute, large to keep
  full,       // keep each block's input only
};

// Device tensors of one micro-batch of B samples, this rank's share of it: M rows (plan/tokens.h), of which M' are its
// own where no tokens meet. T: length of the sequences, padding included.
struct MicroBatch {
  TokenShare share;
  std::vector<TokenRun> runs;  // of the own rows
  Tensor ids, targets;         // i32 [M]; id -1: another rank's part of the vocabulary, target -1: ignored
  Tensor row_positions;        // i32 [M], learned positions only; embed_positions: -1 where ids are
  Tensor embed_positions;
  Tensor positions;       // i32 [B*T], of all tokens
  Tensor doc_start;       // i32 [B,T], or empty: no masking between documents
  Tensor sample_ids;      // i32 [B,2], low and high words of the global sample index
  bool training = false;  // dropout applies, and a backward pass will follow
  int64_t samples() const { return share.samples; }
  int64_t length() const { return share.length; }
  int64_t rows() const { return share.rows(); }
  int64_t local_rows() const { return share.local_rows; }
};

struct ModelEnv {
  const Architecture* arch = nullptr;
  const ModelIds* ids = nullptr;
  ParamStore* params = nullptr;
  Ops* ops = nullptr;
  Arena* arena = nullptr;
  Group *tensor = nullptr, *sequence = nullptr;
  HeadExchange exchange;   // around the attention core
  TokenCut tokens;         // of the mesh
  HeadLayout heads;        // of this rank's QKV projection
  HeadLayout core;         // of its attention core, after the exchange of heads
  int64_t first_head = 0;  // of the core, among the model's
  Share vocabulary;        // ids of its part of the embedding and the head, padding included
  Rope rope;
  Tensor masked_ids;  // i32, may be empty
  uint64_t seed = 0;

  ArenaTensor alloc(const Shape& s) const { return arena->alloc(params->compute(), s); }
  ArenaTensor alloc_f32(const Shape& s) const { return arena->alloc(DType::f32, s); }
  ArenaTensor widened(const Tensor& x) const;  // as f32: itself, or a copy
  Tensor weight(ParamId id) const { return id < 0 ? Tensor{} : params->weight(id); }

  // ---- across the tensor-parallel ranks -----------------------------------------------------------------------------
  // The own rows of x [M,C].
  Tensor own_rows(const Tensor& x, const MicroBatch& b) const { return x.slice(b.share.first_row, b.local_rows()); }
  // x [M,C], of which only the own rows are there, becomes whole.
  void gather(const Tensor& x, const MicroBatch& b) const;
  // The same out of the own rows [M',C].
  ArenaTensor whole(ArenaTensor own, const MicroBatch&) const;
  // The own rows [M',C] of the sum over the ranks of their parts x [M,C].
  ArenaTensor reduce(ArenaTensor x, const MicroBatch&) const;

  void linear(const Tensor& y, const Tensor& x, const LinearIds& l) const {
    ops->linear(y, x, params->weight(l.first, l.last), weight(l.bias));
  }
  // This rank's part of the sum; one rank adds the bias.
  void linear_part(const Tensor& y, const Tensor& x, const LinearIds& l) const {
    const bool biased = params->table().adds_to_sum();
    ops->linear(y, x, params->weight(l.first, l.last), biased ? weight(l.bias) : Tensor{});
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
  // In place on the own rows x [M',C]; does nothing at p = 0 or outside training.
  void drop(const Tensor& x, const MicroBatch&, const Dropout&) const;
};

}  // namespace fp
