#include "model/feed_forward.h"

#include <utility>

namespace fp {

void FeedForward::expand(FeedForwardState& s) const {
  const ModelEnv& e = *env_;
  const int64_t m = s.x->shape[0];
  s.u = e.alloc({m, e.arch->activation.inputs(width())});
  if (e.arch->activation.kind == Activation::gelu && fused_) {
    s.g = e.alloc({m, width()});
    e.linear_gelu(s.g, s.u, s.x, ids().up);
  } else {
    e.linear(s.u, s.x, ids().up);
    activate(s);
  }
}

void FeedForward::activate(FeedForwardState& s) const {
  s.g = env_->alloc({s.u->shape[0], width()});
  env_->ops->activation({s.g, s.u, env_->arch->activation});
}

ArenaTensor FeedForward::project(const FeedForwardState& s) const {
  ArenaTensor y = env_->alloc({s.g->shape[0], env_->arch->hidden});
  env_->linear_part(y, s.g, ids().down);
  return y;
}

ArenaTensor FeedForward::backward_input(ArenaTensor d_out, FeedForwardState& s) const {
  const ModelEnv& e = *env_;
  s.d_out = std::move(d_out);
  s.d_u = e.alloc(s.u->shape);
  if (e.arch->activation.kind == Activation::gelu) {
    e.linear_backward_input_gelu(s.d_u, s.d_out, s.u, ids().down);
  } else {
    const ArenaTensor d_g = e.alloc(s.g->shape);
    e.linear_backward_input(d_g, s.d_out, ids().down);
    e.ops->activation_backward({s.d_u, d_g, s.u, e.arch->activation});
  }
  ArenaTensor dx = e.alloc({s.d_u->shape[0], e.arch->hidden});
  e.linear_backward_input(dx, s.d_u, ids().up);
  return dx;
}

void FeedForward::backward_weight(FeedForwardState& s) const {
  env_->linear_backward_weight(s.d_out, s.g, ids().down);
  env_->linear_backward_weight(s.d_u, s.x, ids().up);
}

}  // namespace fp
