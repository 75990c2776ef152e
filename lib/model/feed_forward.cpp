#include "model/feed_forward.h"

#include <utility>

#include "base/even_split.h"

namespace fp {

void FeedForward::expand(const Tensor& x, ArenaTensor& u, ArenaTensor& g) const {
  const ModelEnv& e = *env_;
  const int64_t m = x.shape[0];
  u = e.alloc({m, e.arch->activation.inputs(width())});
  if (e.arch->activation.kind == Activation::gelu && fused_) {
    g = e.alloc({m, width()});
    e.linear_gelu(g, u, x, ids().up);
  } else {
    e.linear(u, x, ids().up);
    g = activated(u);
  }
}

ArenaTensor FeedForward::activated(const Tensor& u) const {
  ArenaTensor g = env_->alloc({u.shape[0], width()});
  env_->ops->activation({g, u, env_->arch->activation});
  return g;
}

ArenaTensor FeedForward::backward_activation(const Tensor& d_out, const Tensor& u, const Tensor& g) const {
  const ModelEnv& e = *env_;
  ArenaTensor d_u = e.alloc(u.shape);
  if (e.arch->activation.kind == Activation::gelu) {
    e.linear_backward_input_gelu(d_u, d_out, u, ids().down);
  } else {
    const ArenaTensor d_g = e.alloc(g.shape);
    e.linear_backward_input(d_g, d_out, ids().down);
    e.ops->activation_backward({d_u, d_g, u, e.arch->activation});
  }
  return d_u;
}

void FeedForward::add_weight_gradients(const Tensor& d_out, const Tensor& g, const Tensor& d_u, const Tensor& x) const {
  env_->linear_backward_weight(d_out, g, ids().down);
  env_->linear_backward_weight(d_u, x, ids().up);
}

// Calls body(first, rows) for each tile, with `rows` expanded.
template <class Body>
void FeedForward::for_tiles(const FeedForwardState& s, const Body& body) const {
  const int64_t m = s.x->shape[0];
  const auto tiles = static_cast<int>((m + tile_ - 1) / tile_);
  for (int i = 0; i < tiles; ++i) {
    const IndexRange range = split_evenly(m, tiles, i);
    Rows rows;
    expand(s.x->slice(range.first, range.count), rows.u, rows.g);
    body(range.first, rows);
  }
}

ArenaTensor FeedForward::forward(FeedForwardState& s) const {
  const ModelEnv& e = *env_;
  expand(s);
  ArenaTensor y = e.alloc({s.x->shape[0], e.arch->hidden});
  if (tile_ == 0) {
    e.linear_part(y, s.g, ids().down);
  } else {
    for_tiles(s, [&](int64_t first, const Rows& rows) {
      e.linear_part(y->slice(first, rows.g->shape[0]), rows.g, ids().down);
    });
  }
  return y;
}

void FeedForward::expand(FeedForwardState& s) const {
  if (tile_ == 0) expand(s.x, s.u, s.g);
}

void FeedForward::activate(FeedForwardState& s) const {
  if (tile_ == 0) s.g = activated(s.u);
}

ArenaTensor FeedForward::backward_input(ArenaTensor d_out, FeedForwardState& s, Gradients gradients) const {
  const ModelEnv& e = *env_;
  s.d_out = std::move(d_out);
  if (tile_ == 0) s.d_u = backward_activation(s.d_out, s.u, s.g);
  ArenaTensor dx = e.alloc({s.x->shape[0], e.arch->hidden});
  if (tile_ == 0) {
    e.linear_backward_input(dx, s.d_u, ids().up);
    return dx;
  }
  const bool weights = gradients == Gradients::of_input_and_weights;
  for_tiles(s, [&](int64_t first, Rows& rows) {
    const int64_t n = rows.g->shape[0];
    const Tensor d = s.d_out->slice(first, n);
    rows.d_u = backward_activation(d, rows.u, rows.g);
    e.linear_backward_input(dx->slice(first, n), rows.d_u, ids().up);
    if (weights) add_weight_gradients(d, rows.g, rows.d_u, s.x->slice(first, n));
  });
  if (weights) s.d_out.reset();
  return dx;
}

void FeedForward::backward_weight(FeedForwardState& s) const {
  if (!s.d_out) return;
  if (tile_ == 0) return add_weight_gradients(s.d_out, s.g, s.d_u, s.x);
  for_tiles(s, [&](int64_t first, Rows& rows) {
    const int64_t n = rows.g->shape[0];
    const Tensor d = s.d_out->slice(first, n);
    rows.d_u = backward_activation(d, rows.u, rows.g);
    add_weight_gradients(d, rows.g, rows.d_u, s.x->slice(first, n));
  });
}

}  // namespace fp
