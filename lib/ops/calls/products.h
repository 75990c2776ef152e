// Calls of a linear layer: y[M,N] = x[M,K] w[N,K]^T + bias[N]. Input gradients and weight gradients are separate calls,
// so that a pipeline schedule may run them at different times.
#pragma once

#include <tuple>

#include "ops/calls/call.h"
#include "ops/calls/elementwise.h"

namespace fp::calls {

struct Linear {
  Tensor y, x, w, bias = {};
};

// dx = dy w.
struct LinearBackwardInput {
  Tensor dx, dy, w;
};

// dw f32 = or += dy^T x.
struct LinearBackwardWeight {
  Tensor dw, dy, x;
  Write write;
};

// db f32 = or += column sums of dy.
struct BiasBackward {
  Tensor db, dy;
  Write write;
};

// Fused ops. A backend that has no fused kernel runs the parts one after another. Results are the same, except that a
// fused kernel may leave out the rounding in between.

// u = x w^T + bias, y = gelu(u).
struct LinearGelu {
  Tensor y, u, x, w, bias = {};
  std::tuple<Linear, Activation> parts() const { return {{u, x, w, bias}, {y, u, {fp::Activation::gelu}}}; }
};

// du = gelu'(u) * (dy w).
struct LinearBackwardInputGelu {
  Tensor du, dy, w, u;
  std::tuple<LinearBackwardInput, ActivationBackward> parts() const {
    return {{du, dy, w}, {du, du, u, {fp::Activation::gelu}}};
  }
};

struct LinearBackwardWeightBias {
  Tensor dw, db, dy, x;
  Write dw_write, db_write;
  std::tuple<LinearBackwardWeight, BiasBackward> parts() const { return {{dw, dy, x, dw_write}, {db, dy, db_write}}; }
};

}  // namespace fp::calls
