// Block: one pre-norm decoder block: x1 = x + attention(norm(x)), y = x1 + MLP(norm(x1)). It composes SelfAttention and
// FeedForward with the norms, residuals and dropout around them, and gathers and reduces across the ranks.
//
// Input gradients and weight gradients are separate, so that a schedule may run them at different times.
#pragma once

#include <utility>
#include <vector>

#include "model/feed_forward.h"
#include "model/self_attention.h"

namespace fp {

// Activations and gradients of one block for one chunk of a micro-batch, kept between its passes. M rows, M' of them
// own (model/env.h), h hidden.
struct BlockState {
  Tensor x;                      // input [M',h], which the caller keeps as long as the state
  ArenaTensor stats1;            // norm statistics [M',2]
  SelfAttentionState attention;  // its x: the normed input [M,h]
  ArenaTensor x1, stats2;        // after attention [M',h]
  FeedForwardState mlp;          // its x: the normed x1 [M,h]
  ArenaTensor d_n1, d_n2;        // stored by backward_input for the weight gradients
};

class Block {
 public:
  // `mlp_tile`: rows of which the MLP is computed at a time; 0: all at once.
  Block(const ModelEnv& env, int64_t layer, Recompute recompute, int64_t mlp_tile = 0);
  Recompute recompute() const { return recompute_; }
  int64_t mlp_tile() const { return mlp_.tile(); }

  // Returns the output [M',h] for the input x [M',h]. In training, stores in the state what the backward pass needs.
  // Chunks are passed in order.
  ArenaTensor forward(const Tensor& x, const MicroBatch&, BlockState&, KeyValues&) const;
  // Forgets keys and values if the backward pass computes them again. Call after the forward pass of the last chunk.
  void end_forward(const MicroBatch&, KeyValues&) const;
  // Restores the keys and values of a chunk of a block with full recomputation, for its input x. Call for all chunks
  // but the last before the backward pass.
  void restore_keys(const Tensor& x, const MicroBatch&, KeyValues&) const;
  // Returns the gradient of the input for that of the output, both [M',h]. Leaves in the state only what
  // backward_weight needs. Chunks are passed in reverse. With full recomputation, the state needs only x.
  ArenaTensor backward_input(ArenaTensor dy, const MicroBatch&, BlockState&, KeyValues&) const;
  // Adds to the parameters' gradients and empties the state. Needs the weights if it recomputes.
  void backward_weight(BlockState&) const;
  bool recomputes_for_weight_gradients() const { return mlp_.in_tiles(); }
  // Both. Weight gradients are computed while rows are on their way between the tensor-parallel ranks.
  ArenaTensor backward(ArenaTensor dy, const MicroBatch&, BlockState&, KeyValues&) const;

  // Inference on one sequence: returns the output for x [n,h] at positions [past, past + n), and appends their keys and
  // values to the caches [positions,K,d].
  ArenaTensor decode(ArenaTensor x, const Tensor& positions, int64_t past, const Tensor& k_cache,
                     const Tensor& v_cache) const;

 private:
  const BlockIds& ids() const { return env_->ids->blocks[static_cast<size_t>(layer_)]; }
  // x -> normed input, which arrives in pieces.
  std::vector<Request> norm_input(const MicroBatch&, BlockState&) const;
  // x -> x1 and the input of the MLP, which arrives in pieces.
  std::vector<Request> add_attention(ArenaTensor attention, const MicroBatch&, BlockState&) const;
  // x1 and the input of the MLP -> output
  ArenaTensor add_mlp(const MicroBatch&, BlockState&, std::vector<Request> arriving) const;
  // Attention in pieces of rows, and the sum of its output over the ranks: the own rows [M',h].
  ArenaTensor attended(const MicroBatch&, BlockState&, KeyValues&, std::vector<Request> arriving) const;
  // Rows in pieces, each of which is waited for before it is computed.
  RowFlow flow(const MicroBatch&, std::vector<Request>& arriving) const;
  // Normed inputs of attention and MLP on their way to all ranks.
  struct Gathers {
    std::vector<Request> attention, mlp;
  };
  // Writes the norm of x, or of the sum of x and the residual, to n, all [M',h], and starts to gather n in pieces.
  std::vector<Request> norm_in_pieces(const MicroBatch&, ArenaTensor& n, const Tensor& sum, const Tensor& stats,
                                      const Tensor& x, const Tensor& residual, const NormIds&) const;
  // Restore what full recomputation has not kept, and what selective recomputation has not, but for the gathers.
  void recompute_all(const MicroBatch&, BlockState&, KeyValues&) const;
  Gathers recompute_some(const MicroBatch&, BlockState&) const;
  // Computes rows in pieces as they arrive; returns the own rows of the sum over the ranks of what compute(flow)
  // returns.
  template <class Compute>
  ArenaTensor summed(const MicroBatch&, std::vector<Request> arriving, const Compute&) const;
  // Compute the gradient of the MLP's input, after what has to be computed again, and of attention's; start its sum.
  MovingRows start_mlp_sum(const Tensor& dy, const MicroBatch&, BlockState&, KeyValues&, FeedForward::Gradients,
                           Gathers& inputs) const;
  MovingRows start_attention_sum(ArenaTensor d_out, const MicroBatch&, BlockState&, KeyValues&) const;
  MovingRows start_whole_gradient(const Tensor& dy, const MicroBatch&, const Dropout&, const RowPieces&) const;
  Dropout residual_dropout() const;
  Dropout ffn_dropout() const;

  const ModelEnv* env_;
  int64_t layer_;
  Recompute recompute_;
  SelfAttention attention_;
  FeedForward mlp_;
};

}  // namespace fp
