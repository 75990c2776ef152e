// Block: one decoder block, in three parts (docs/architecture.md, section 3):
//   token-local A: norm, QKV projection
//   attention core: rotary positions and attention, the only part that mixes tokens
//   token-local B: output projection, residual, norm, MLP, residual
// Input gradients and weight gradients are separate, so that a schedule may run them at different times.
#pragma once

#include "model/env.h"

namespace fp {

// Activations and gradients of one block for one micro-batch, kept between its passes. M rows, M' of them own
// (model/env.h), h hidden, H heads of the core.
struct BlockState {
  ArenaTensor x, stats1, n1;                           // input [M',h], norm statistics [M',2], normed input [M,h]
  ArenaTensor q, k, v, o, lse;                         // [B,T,heads,d]; log-sum-exp [B,H,T] f32
  ArenaTensor o_rows;                                  // [M, columns] o after the head exchange; empty: o itself
  ArenaTensor x1, stats2, n2;                          // after attention [M',h]; n2 [M,h]
  ArenaTensor u, g;                                    // MLP before and after the activation [M,.]
  ArenaTensor d_down, d_u, d_n2, d_proj, d_qkv, d_n1;  // stored by backward_input for the weight gradients
};

class Block {
 public:
  Block(const ModelEnv& env, int64_t layer, Recompute recompute) : env_(&env), layer_(layer), recompute_(recompute) {}

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
  void project_qkv(const MicroBatch&, BlockState&) const;                          // x -> n1, q, k, v
  void attend(const MicroBatch&, BlockState&) const;                               // q, k, v -> o
  void mlp_input(const MicroBatch&, BlockState&) const;                            // o, x -> x1, n2, u, g
  void activate(const MicroBatch&, BlockState&) const;                             // u -> g
  ArenaTensor mlp_output(const MicroBatch&, BlockState&) const;                    // g, x1 -> output
  void recompute_activations(const MicroBatch&, BlockState&) const;                // restores what was not kept
  ArenaTensor backward_mlp(ArenaTensor dy, const MicroBatch&, BlockState&) const;  // -> gradient of x1
  void backward_attention(const MicroBatch&, BlockState&) const;                   // d_proj -> d_qkv
  ArenaTensor whole_gradient(const Tensor& dy, const MicroBatch&, const Dropout&) const;
  int64_t ffn() const { return env_->params->table()[ids().down.first].local[1]; }  // of this rank

  HeadExchange::Place exchange_of(const MicroBatch&) const;
  Tensor o_rows(const BlockState&, int64_t rows) const;
  AttentionSpec attention_spec(bool training) const;
  Dropout residual_dropout() const;
  Dropout ffn_dropout() const;

  const ModelEnv* env_;
  int64_t layer_;
  Recompute recompute_;
};

}  // namespace fp
