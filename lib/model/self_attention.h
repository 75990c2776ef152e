// SelfAttention: the QKV projection, rotary positions, attention and the output projection of one layer. Attention is
// the only computation of a model that mixes tokens.
#pragma once

#include "model/env.h"

namespace fp {

// The norm of the heads of one projection: its input [B*T,heads,d], statistics f32 [B*T*heads,2], and the gradient of
// its output, stored by backward_input. Empty without such norms.
struct HeadNormState {
  ArenaTensor x, stats, dy;
};

// Activations and gradients of one layer's self-attention for one micro-batch, kept between its passes. M rows, h
// hidden, H heads of the core (model/env.h).
struct SelfAttentionState {
  ArenaTensor x;                // input [M,h], set by the caller
  ArenaTensor q, k, v, o, lse;  // [B,T,heads,d]; log-sum-exp [B,H,T] f32
  ArenaTensor o_rows;           // [M, columns] o after the head exchange; empty: o itself
  HeadNormState q_norm, k_norm;
  ArenaTensor d_out, d_qkv;  // gradients stored by backward_input for the weight gradients
};

class SelfAttention {
 public:
  SelfAttention(const ModelEnv& env, int64_t layer) : env_(&env), layer_(layer) {}

  // Returns this rank's addend of the output [M,h] for the input in the state.
  ArenaTensor forward(const MicroBatch&, SelfAttentionState&) const;
  // Returns this rank's addend of the gradient of the input for that of the output, both [M,h].
  ArenaTensor backward_input(ArenaTensor d_out, const MicroBatch&, SelfAttentionState&) const;
  // Frees what only backward_input needs.
  void release(SelfAttentionState&) const;
  // Adds to the parameters' gradients.
  void backward_weight(SelfAttentionState&) const;

  // Inference on one sequence: returns the output for the input [n,h] in the state, at positions [past, past + n), and
  // appends their keys and values to the caches [positions,K,d].
  ArenaTensor decode(SelfAttentionState&, const Tensor& positions, int64_t past, const Tensor& k_cache,
                     const Tensor& v_cache) const;

 private:
  const AttentionIds& ids() const { return env_->ids->blocks[static_cast<size_t>(layer_)].attention; }
  void project_qkv(const MicroBatch&, SelfAttentionState&) const;  // x -> q, k, v
  // Split the core's QKV projection into heads, normalised if the family has such norms, and rotated; and its gradient
  // back. The projection is overwritten.
  void split_heads(const Tensor& qkv, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& positions,
                   SelfAttentionState&) const;
  void split_heads_backward(const Tensor& d_qkv, const Tensor& d_q, const Tensor& d_k, const Tensor& d_v,
                            const Tensor& positions, SelfAttentionState&) const;
  bool has_head_norms() const { return ids().q_norm.gain >= 0; }
  void attend(const MicroBatch&, SelfAttentionState&) const;    // q, k, v -> o
  ArenaTensor project_output(const SelfAttentionState&) const;  // o -> addend of the output
  HeadExchange::Place exchange_of(const MicroBatch&) const;
  Tensor o_rows(const SelfAttentionState&) const;
  AttentionSpec spec(bool training) const;

  const ModelEnv* env_;
  int64_t layer_;
};

}  // namespace fp
