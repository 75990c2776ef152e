// Calls that move and convert elements.
#pragma once

#include <span>

#include "ops/calls/call.h"
#include "ops/draws.h"

namespace fp::calls {

// Copies dst.bytes() bytes from host memory, which may be reused when the call returns.
struct CopyIn {
  Tensor dst;
  const void* host;
};

// Returns when the bytes have arrived.
struct CopyOut {
  void* host;
  Tensor src;
};

// Same dtype and element count.
struct Copy {
  Tensor dst, src;
};

struct Zero {
  Tensor x;
};

// f32 to bf16 (round to nearest even) or bf16 to f32, same element count.
struct Cast {
  Tensor dst, src;
};

// Permutes dimensions: dimension i of y is dimension order[i] of x; f32, bf16 or i32. Packs heads for an all-to-all
// between P ranks: [B,T,P,H/P,d] by {2,0,1,3,4} -> [P,B,T,H/P,d], one piece for each rank.
struct Permute {
  Tensor y, x;
  std::span<const int> order;
};

// Columns [y_first, y_first + count) of y [M,Ny] = or += columns [x_first, x_first + count) of x [M,Nx]; f32 or bf16, a
// sum is rounded once. Used to gather the heads that an all-to-all sends, and to add up the gradients of kv heads that
// several ranks hold.
struct CopyColumns {
  Tensor y;
  int64_t y_first;
  Tensor x;
  int64_t x_first, count;
  Write write;
};

// dst bf16 [n] = src f32 [n], each element rounded up or down at random so that its expected value is kept.
struct RoundStochastically {
  Tensor dst, src;
  StochasticRounding rounding;
};

}  // namespace fp::calls
