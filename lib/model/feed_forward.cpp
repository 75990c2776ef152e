#include "model/feed_forward.h"

#include <utility>

#include "base/even_split.h"

namespace fp {

ArenaTensor FeedForward::rows_of(int64_t rows, int64_t columns) const { return env_->alloc({rows, columns}); }

void FeedForward::expand(const Tensor& x, const Tensor& u, const Tensor& g) const {
  const ModelEnv& e = *env_;
  if (e.arch->activation.kind == Activation::gelu && fused_) return e.linear_gelu(g, u, x, ids().up);
  e.linear(u, x, ids().up);
  activate(u, g);
}

void FeedForward::activate(const Tensor& u, const Tensor& g) const {
  env_->ops->activation({g, u, env_->arch->activation});
}

void FeedForward::backward_activation(const Tensor& d_u, const Tensor& d_out, const Tensor& u) const {
  const ModelEnv& e = *env_;
  if (e.arch->activation.kind == Activation::gelu) return e.linear_backward_input_gelu(d_u, d_out, u, ids().down);
  const ArenaTensor d_g = rows_of(u.shape[0], width());
  e.linear_backward_input(d_g, d_out, ids().down);
  e.ops->activation_backward({d_u, d_g, u, e.arch->activation});
}

void FeedForward::add_down_gradient(const Tensor& d_out, const Tensor& g) const {
  env_->linear_backward_weight(d_out, g, ids().down);
}

void FeedForward::add_up_gradient(const Tensor& d_u, const Tensor& x) const {
  env_->linear_backward_weight(d_u, x, ids().up);
}

// Calls body(first, rows) for each tile, with `rows` expanded.
template <class Body>
void FeedForward::for_tiles(const FeedForwardState& s, const Body& body) const {
  const int64_t m = s.x->shape[0];
  const auto tiles = static_cast<int>((m + tile_ - 1) / tile_);
  for (int i = 0; i < tiles; ++i) {
    const IndexRange range = split_evenly(m, tiles, i);
    Rows rows{rows_of(range.count, inputs()), rows_of(range.count, width()), {}};
    expand(s.x->slice(range.first, range.count), rows.u, rows.g);
    body(range.first, rows);
  }
}

// Calls body(i) for each piece with what is before and after it; result [M,h].
template <class Body>
void FeedForward::for_pieces(const RowFlow& flow, const Tensor& result, const Body& body) const {
  for (int64_t i = 0; i < flow.pieces.count; ++i) {
    flow.before(i);
    body(i);
    env_->progress();
    if (flow.after) flow.after(i, result);
  }
}

// The same with tiles, which are other rows: all pieces come before them and go after them.
template <class Body>
void FeedForward::for_all_tiles(const FeedForwardState& s, const RowFlow& flow, const Tensor& result,
                                const Body& body) const {
  for (int64_t i = 0; i < flow.pieces.count; ++i) flow.before(i);
  for_tiles(s, body);
  for (int64_t i = 0; i < flow.pieces.count; ++i) flow.after(i, result);
}

void FeedForward::allocate(FeedForwardState& s) const {
  s.u = rows_of(s.x->shape[0], inputs());
  s.g = rows_of(s.x->shape[0], width());
}

ArenaTensor FeedForward::forward(FeedForwardState& s, const RowFlow& flow) const {
  const ModelEnv& e = *env_;
  if (tile_ == 0) allocate(s);
  ArenaTensor y = e.alloc({s.x->shape[0], e.arch->hidden});
  if (tile_ == 0) {
    for_pieces(flow, y, [&](int64_t i) {
      const auto piece = [&](const Tensor& t) { return flow.pieces.all_of(t, i); };
      expand(piece(s.x), piece(s.u), piece(s.g));
      e.linear_part(piece(y), piece(s.g), ids().down);
    });
  } else {
    for_all_tiles(s, flow, y, [&](int64_t first, const Rows& rows) {
      e.linear_part(y->slice(first, rows.g->shape[0]), rows.g, ids().down);
    });
  }
  return y;
}

void FeedForward::expand(FeedForwardState& s, const RowFlow& flow) const {
  if (tile_ == 0) allocate(s);
  for_pieces(flow, {}, [&](int64_t i) {
    const auto piece = [&](const Tensor& t) { return flow.pieces.all_of(t, i); };
    if (tile_ == 0) expand(piece(s.x), piece(s.u), piece(s.g));
  });
}

void FeedForward::activate(FeedForwardState& s) const {
  if (tile_ > 0) return;
  s.g = rows_of(s.u->shape[0], width());
  activate(s.u, s.g);
}

ArenaTensor FeedForward::backward_input(ArenaTensor d_out, FeedForwardState& s, Gradients gradients,
                                        const RowFlow& flow) const {
  const ModelEnv& e = *env_;
  s.d_out = std::move(d_out);
  if (tile_ == 0) s.d_u = e.alloc(s.u->shape);
  ArenaTensor dx = e.alloc({s.x->shape[0], e.arch->hidden});
  if (tile_ == 0) {
    for_pieces(flow, dx, [&](int64_t i) {
      const auto piece = [&](const Tensor& t) { return flow.pieces.all_of(t, i); };
      backward_activation(piece(s.d_u), piece(s.d_out), piece(s.u));
      e.linear_backward_input(piece(dx), piece(s.d_u), ids().up);
    });
    return dx;
  }
  const bool weights = gradients == Gradients::of_input_and_weights;
  for_all_tiles(s, flow, dx, [&](int64_t first, Rows& rows) {
    const int64_t n = rows.g->shape[0];
    const Tensor d = s.d_out->slice(first, n);
    rows.d_u = e.alloc(rows.u->shape);
    backward_activation(rows.d_u, d, rows.u);
    e.linear_backward_input(dx->slice(first, n), rows.d_u, ids().up);
    if (!weights) return;
    add_down_gradient(d, rows.g);
    add_up_gradient(rows.d_u, s.x->slice(first, n));
  });
  if (weights) s.d_out.reset();
  return dx;
}

void FeedForward::backward_weight_of_down(FeedForwardState& s) const {
  if (!s.d_out) return;
  if (tile_ == 0) return add_down_gradient(s.d_out, s.g);
  for_tiles(s, [&](int64_t first, Rows& rows) {
    const int64_t n = rows.g->shape[0];
    const Tensor d = s.d_out->slice(first, n);
    rows.d_u = env_->alloc(rows.u->shape);
    backward_activation(rows.d_u, d, rows.u);
    add_down_gradient(d, rows.g);
    add_up_gradient(rows.d_u, s.x->slice(first, n));
  });
}

void FeedForward::backward_weight_of_up(FeedForwardState& s) const {
  if (tile_ == 0) add_up_gradient(s.d_u, s.x);
}

}  // namespace fp
