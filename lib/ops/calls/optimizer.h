// Calls of the optimizer on flat buffers.
#pragma once

#include <span>

#include "ops/calls/call.h"

namespace fp {

struct AdamW {
  double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
  int64_t step = 1;         // 1-based, for the bias correction
  double grad_scale = 1.0;  // factor on the gradients, applied first (clipping)
};

// Sums that adamw() computes along the way; an empty tensor is not computed.
struct AdamWSums {
  Tensor gradient;  // f32 [1,2]: piece_sums() of grad, before it is scaled
  Tensor bits;      // i32 [4,2]: bit_sums() of the new param, m, v and weights, 0 without weights
};

// A range of elements of a flat buffer.
struct Segment {
  int64_t offset = 0, count = 0;
};

namespace calls {

// sums f32 [segments]: sum of squares of each segment of flat x (f32), added up in double or in short blocks;
// non-finite when any element is.
struct SumSquares {
  Tensor sums, x;
  std::span<const Segment> segments;
};

// AdamW with decoupled weight decay on flat f32 buffers. `weights` (bf16 copy of param, or empty) is refreshed and the
// sums are computed in the same pass.
struct AdamW {
  Tensor param, m, v, grad, weights = {};
  fp::AdamW options;
  AdamWSums sums = {};
};

}  // namespace calls
}  // namespace fp
