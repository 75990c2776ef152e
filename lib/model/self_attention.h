// SelfAttention: the QKV projection, rotary positions, attention and the output projection of one layer. Attention is
// the only computation of a model that mixes tokens.
//
// In chunks (memory.sequence_chunk_tokens) it is FPDT's (Yao et al. 2024): the output of a chunk's queries is merged
// from the chunks of keys that they see, by the log-sum-exp of each; its backward pass adds up the gradients of
// queries, keys and values over these chunks in fp32.
#pragma once

#include "model/key_values.h"

namespace fp {

// The norm of the heads of one projection: its input [B*T,heads,d], statistics f32 [B*T*heads,2], and the gradient of
// its output, stored by backward_input. Empty without such norms.
struct HeadNormState {
  ArenaTensor x, stats, dy;
};

// Activations and gradients of one layer's self-attention for one chunk of a micro-batch, kept between its passes. M
// rows, h hidden, H heads of the core (model/env.h).
struct SelfAttentionState {
  ArenaTensor x;          // input [M,h], set by the caller, in the order of pieces
  ArenaTensor q, o, lse;  // [B,T,H,d]; log-sum-exp [B,H,T] f32
  ArenaTensor o_rows;     // [M, columns] o after the head exchange; empty: o itself
  HeadNormState q_norm, k_norm;
  // Gradients stored by backward_input for the weight gradients: in the order of tokens, and in that of pieces.
  ArenaTensor d_out, d_qkv;
};

class SelfAttention {
 public:
  SelfAttention(const ModelEnv& env, int64_t layer) : env_(&env), layer_(layer) {}

  // Returns this rank's addend of the output [M,h] for the input in the state. Both are in the order of pieces.
  ArenaTensor forward(const MicroBatch&, SelfAttentionState&, KeyValues&, const RowFlow&) const;
  // The first part of forward(): the QKV projection.
  void project(const MicroBatch&, SelfAttentionState&, KeyValues&, const RowFlow&) const;
  // Returns this rank's addend of the gradient of the input [M,h], in the order of pieces, for that of the output, in
  // the order of tokens.
  ArenaTensor backward_input(ArenaTensor d_out, const MicroBatch&, SelfAttentionState&, KeyValues&) const;
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
  // Split the core's QKV projection into heads, normalised if the family has such norms, and rotated; and its gradient
  // back. The projection is overwritten.
  void split_heads(const Tensor& qkv, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& positions,
                   SelfAttentionState&) const;
  void split_heads_backward(const Tensor& d_qkv, const Tensor& d_q, const Tensor& d_k, const Tensor& d_v,
                            const Tensor& positions, SelfAttentionState&) const;
  bool has_head_norms() const { return ids().q_norm.gain >= 0; }
  // The chunks of keys that the queries of a chunk see, in the order of visits (model/key_values.h).
  std::vector<size_t> visible_chunks(const MicroBatch&) const;
  AttentionSpec spec_of_visit(const MicroBatch&, size_t chunk) const;
  void attend(const MicroBatch&, SelfAttentionState&, KeyValues&) const;  // q, k, v -> o, lse
  // Returns the gradient of the core's QKV projection for that of o.
  ArenaTensor attend_backward(const Tensor& d_o, const MicroBatch&, SelfAttentionState&, KeyValues&) const;
  ArenaTensor project_output(const SelfAttentionState&, const RowFlow&) const;  // o -> addend of the output
  HeadExchange::Place exchange_of(const MicroBatch&) const;
  Tensor o_rows(const SelfAttentionState&) const;
  AttentionSpec spec(bool training) const;

  const ModelEnv* env_;
  int64_t layer_;
};

}  // namespace fp
