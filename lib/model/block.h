// Block: one pre-norm decoder block: x1 = x + attention(norm(x)), y = x1 + MLP(norm(x1)). It composes SelfAttention and
// FeedForward with the norms, residuals and dropout around them, and gathers and reduces across the ranks.
//
// Input gradients and weight gradients are separate, so that a schedule may run them at different times.
#pragma once

#include "model/feed_forward.h"
#include "model/self_attention.h"

namespace fp {

// Activations and gradients of one block for one micro-batch, kept between its passes. M rows, M' of them own
// (model/env.h), h hidden.
struct BlockState {
  ArenaTensor x, stats1;         // input [M',h], norm statistics [M',2]
  SelfAttentionState attention;  // its x: the normed input [M,h]
  ArenaTensor x1, stats2;        // after attention [M',h]
  FeedForwardState mlp;          // its x: the normed x1 [M,h]
  ArenaTensor d_n1, d_n2;        // stored by backward_input for the weight gradients
};

class Block {
 public:
  Block(const ModelEnv& env, int64_t layer, Recompute recompute);
  Recompute recompute() const { return recompute_; }

  // Returns the output [M',h] for the input x [M',h]. In training, stores in the state what the backward pass needs.
  ArenaTensor forward(ArenaTensor x, const MicroBatch&, BlockState&) const;
  // Returns the gradient of the input for that of the output, both [M',h]. Leaves in the state only what
  // backward_weight needs.
  ArenaTensor backward_input(ArenaTensor dy, const MicroBatch&, BlockState&) const;
  // Adds to the parameters' gradients and empties the state.
  void backward_weight(BlockState&) const;

  // Inference on one sequence: returns the output for x [n,h] at positions [past, past + n), and appends their keys and
  // values to the caches [positions,K,d].
  ArenaTensor decode(ArenaTensor x, const Tensor& positions, int64_t past, const Tensor& k_cache,
                     const Tensor& v_cache) const;

 private:
  const BlockIds& ids() const { return env_->ids->blocks[static_cast<size_t>(layer_)]; }
  void norm_input(const MicroBatch&, BlockState&) const;                                // x -> normed input
  void add_attention(ArenaTensor addend, const MicroBatch&, BlockState&) const;         // x -> x1, u, g
  ArenaTensor add_mlp(ArenaTensor addend, const MicroBatch&, const BlockState&) const;  // x1 -> output
  void recompute_activations(const MicroBatch&, BlockState&) const;                     // restores what was not kept
  ArenaTensor whole_gradient(const Tensor& dy, const MicroBatch&, const Dropout&) const;
  Dropout residual_dropout() const;
  Dropout ffn_dropout() const;

  const ModelEnv* env_;
  int64_t layer_;
  Recompute recompute_;
  SelfAttention attention_;
  FeedForward mlp_;
};

}  // namespace fp
