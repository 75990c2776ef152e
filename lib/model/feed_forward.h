// FeedForward: the MLP of one layer: up projection, activation, down projection. Every row is computed by itself.
//
// In tiles of rows (memory.mlp_tile_tokens), the wide activations exist for one tile at a time: the backward pass
// computes them again.
#pragma once

#include "model/env.h"

namespace fp {

// Activations and gradients of one layer's MLP for one micro-batch, kept between its passes. M rows, h hidden
// (model/env.h).
struct FeedForwardState {
  ArenaTensor x;           // input [M,h], set by the caller
  ArenaTensor u, g;        // before and after the activation [M,.]; empty in tiles
  ArenaTensor d_out, d_u;  // gradients stored by backward_input for the weight gradients; in tiles only the first
};

class FeedForward {
 public:
  // `tile`: largest number of rows of a tile; 0: all at once. `fused`: activation and projection may be one op, where
  // the backend has it; then activate() does not repeat the results bit for bit.
  FeedForward(const ModelEnv& env, int64_t layer, int64_t tile, bool fused)
      : env_(&env), layer_(layer), tile_(tile), fused_(fused) {}

  bool in_tiles() const { return tile_ > 0; }
  int64_t tile() const { return tile_; }
  // Returns this rank's addend of the output [M,h].
  ArenaTensor forward(FeedForwardState&, const RowFlow&) const;
  // The forward pass without the output, to restore u and g; and g alone, from u. Nothing is restored in tiles.
  void expand(FeedForwardState&, const RowFlow&) const;
  void activate(FeedForwardState&) const;

  // Which gradients a backward pass computes.
  enum class Gradients : uint8_t { of_input, of_input_and_weights };
  // Returns this rank's addend of the gradient of the input for that of the output, both [M,h]. With weights, adds to
  // the parameters' gradients too, for which backward_weight would compute activations once more.
  ArenaTensor backward_input(ArenaTensor d_out, FeedForwardState&, Gradients, const RowFlow&) const;
  // Frees what only backward_input needs.
  void release(FeedForwardState& s) const { s.u.reset(); }
  // Add to the gradients of both projections, or of one of them, unless backward_input did. In tiles,
  // backward_weight_of_down() computes both.
  void backward_weight(FeedForwardState& s) const {
    backward_weight_of_down(s);
    backward_weight_of_up(s);
  }
  void backward_weight_of_down(FeedForwardState&) const;
  void backward_weight_of_up(FeedForwardState&) const;

 private:
  // Activations and gradients of some rows.
  struct Rows {
    ArenaTensor u, g, d_u;
  };
  const FeedForwardIds& ids() const { return env_->ids->blocks[static_cast<size_t>(layer_)].mlp; }
  int64_t width() const { return env_->params->table()[ids().down.first].local[1]; }  // of this rank
  void allocate(FeedForwardState&) const;
  void expand(const Tensor& x, const Tensor& u, const Tensor& g) const;
  void activate(const Tensor& u, const Tensor& g) const;
  void backward_activation(const Tensor& d_u, const Tensor& d_out, const Tensor& u) const;
  void add_down_gradient(const Tensor& d_out, const Tensor& g) const;
  void add_up_gradient(const Tensor& d_u, const Tensor& x) const;
  template <class Body>
  void for_tiles(const FeedForwardState&, const Body&) const;
  template <class Body>
  void for_pieces(const RowFlow&, const Tensor& result, const Body&) const;
  template <class Body>
  void for_all_tiles(const FeedForwardState&, const RowFlow&, const Tensor& result, const Body&) const;
  ArenaTensor rows_of(int64_t rows, int64_t columns) const;
  int64_t inputs() const { return env_->arch->activation.inputs(width()); }

  const ModelEnv* env_;
  int64_t layer_, tile_;
  bool fused_;
};

}  // namespace fp
