// FeedForward: the MLP of one layer: up projection, activation, down projection. Every row is computed by itself.
#pragma once

#include "model/env.h"

namespace fp {

// Activations and gradients of one layer's MLP for one micro-batch, kept between its passes. M rows, h hidden
// (model/env.h).
struct FeedForwardState {
  ArenaTensor x;           // input [M,h], set by the caller
  ArenaTensor u, g;        // before and after the activation [M,.]
  ArenaTensor d_out, d_u;  // gradients stored by backward_input for the weight gradients
};

class FeedForward {
 public:
  // `fused`: activation and projection may be one op, where the backend has it; then activate() does not repeat the
  // results bit for bit.
  FeedForward(const ModelEnv& env, int64_t layer, bool fused) : env_(&env), layer_(layer), fused_(fused) {}

  // The forward pass is in two steps, because recomputation does not need the second: x -> u, g, and g -> this rank's
  // addend of the output [M,h].
  void expand(FeedForwardState&) const;
  ArenaTensor project(const FeedForwardState&) const;
  // Computes g from u again.
  void activate(FeedForwardState&) const;
  // Returns this rank's addend of the gradient of the input for that of the output, both [M,h].
  ArenaTensor backward_input(ArenaTensor d_out, FeedForwardState&) const;
  // Frees what only backward_input needs.
  void release(FeedForwardState& s) const { s.u.reset(); }
  // Adds to the parameters' gradients.
  void backward_weight(FeedForwardState&) const;

 private:
  const FeedForwardIds& ids() const { return env_->ids->blocks[static_cast<size_t>(layer_)].mlp; }
  int64_t width() const { return env_->params->table()[ids().down.first].local[1]; }  // of this rank

  const ModelEnv* env_;
  int64_t layer_;
  bool fused_;
};

}  // namespace fp
