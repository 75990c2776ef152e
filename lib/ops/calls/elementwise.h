// Calls that compute each element, or pair of elements, by itself.
#pragma once

#include "ops/calls/call.h"
#include "ops/draws.h"

namespace fp {

// gelu: tanh form (0.5x(1+tanh(sqrt(2/pi)(x+0.044715x^3)))). swiglu: x = [gate | up], y = silu(gate)*up.
// gegelu: x interleaves a (even) and b (odd), a clamped above and b clamped to +-limit (infinities pass),
// y = a*sigmoid(1.702a)*(b+1).
enum class Activation : uint8_t { gelu, swiglu, gegelu };

struct ActivationSpec {
  Activation kind = Activation::gelu;
  double limit = 20.0;  // gegelu; 0: no clamp
  // Returns the number of input columns for `f` output columns.
  constexpr int64_t inputs(int64_t f) const { return kind == Activation::gelu ? f : 2 * f; }
};

namespace calls {

struct Activation {
  Tensor y, x;
  ActivationSpec spec;
};

// dx may alias dy for gelu.
struct ActivationBackward {
  Tensor dx, dy, x;
  ActivationSpec spec;
};

// y = a + b; y may alias a or b.
struct Add {
  Tensor y, a, b;
};

// dst += src, each f32 or bf16; a sum is computed in f32 and rounded once.
struct Accumulate {
  Tensor dst, src;
};

// y = a_scale * a + b_scale * b, computed in f32 and rounded once; without b, y = a_scale * a. a and b have one type, y
// the same or the other; y may alias an operand of its type.
struct ScaledAdd {
  Tensor y, a, b = {};
  double a_scale, b_scale;
};

// x [B,T,C] -> y (may alias x). sample_ids i32 [B,2] = (low, high) words of the global sample index; the token is
// first_token + t. The backward pass is the same call on the gradient.
struct Dropout {
  Tensor y, x, sample_ids = {};
  int64_t first_token;
  fp::Dropout stream;
};

}  // namespace calls
}  // namespace fp
