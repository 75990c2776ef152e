// Even splits over ranks: contiguous ranges in rank order whose sizes differ by at most one. Tensors, heads, tokens and
// sums are all divided by this function.
#pragma once

#include <algorithm>

#include "base/index_range.h"

namespace fp {

// Returns the range of [0, n) that rank `index` of `ranks` gets; the first n % ranks ranks get one more than the
// others.
constexpr IndexRange split_evenly(int64_t n, int ranks, int index) {
  const int64_t more = n % ranks;
  return {n / ranks * index + std::min<int64_t>(index, more), n / ranks + (index < more ? 1 : 0)};
}

}  // namespace fp
