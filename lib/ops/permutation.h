// Memory access pattern of Ops::permute, shared by the backends.
#pragma once

#include <cstdint>
#include <span>

#include "base/shape.h"

namespace fp {

// The row-major output y consists of runs of `run` elements that are contiguous in x. Run (i0,i1,...), with each index
// below its `size`, begins at element (sum of i * stride) of x. Dimensions that stay adjacent are merged; those of size
// 1 are left out.
struct PermuteWalk {
  int64_t run = 1;
  int rank = 0;
  int64_t size[Shape::kMaxRank] = {};
  int64_t stride[Shape::kMaxRank] = {};

  int64_t runs() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= size[i];
    return n;
  }
};

// Returns the walk for the dimensions `x` and an `order` as in Ops::permute.
inline PermuteWalk permutation(const Shape& x, std::span<const int> order) {
  PermuteWalk p;
  for (const int from : order) {
    if (x[from] == 1) continue;
    int64_t stride = 1;
    for (int i = from + 1; i < x.rank(); ++i) stride *= x[i];
    const bool neighbour = p.rank > 0 && p.stride[p.rank - 1] == x[from] * stride;
    if (!neighbour) p.size[p.rank++] = 1;
    p.size[p.rank - 1] *= x[from];
    p.stride[p.rank - 1] = stride;
  }
  if (p.rank > 0 && p.stride[p.rank - 1] == 1) p.run = p.size[--p.rank];
  return p;
}

}  // namespace fp
