// What the worlds whose tensors pass through host memory share: how a tensor is dealt to ranks, and sums of their
// parts.
#pragma once

#include <span>

#include "comm/comm.h"

namespace fp {

// The part of n elements that rank `rank` of `size` sums up in an all-reduce: the first ones get one more.
inline Segment dealt(int64_t n, int size, int rank) {
  const int64_t least = n / size, more = n % size;
  return {least * rank + std::min<int64_t>(rank, more), least + (rank < more ? 1 : 0)};
}

// What a rank that sums in host memory needs beside the tensors: the pieces of the others that it sums up.
size_t sum_scratch_bytes(const CommCall&, int rank, int size);

// to[i] = the sum or maximum of sources[0][i], sources[1][i], ... for n elements in host memory, f32 or bf16. Taken in
// this order, in f32, and rounded once; NaN is the maximum of anything and NaN. `to` may be one of the sources.
void reduce_in_order(void* to, std::span<const void* const> sources, int64_t n, DType, Reduction);

}  // namespace fp
