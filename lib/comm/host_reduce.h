// What the worlds whose tensors pass through host memory share: sums of the ranks' parts. In an all-reduce each rank
// sums up its share (base/deal.h).
#pragma once

#include <span>

#include "base/deal.h"
#include "comm/comm.h"

namespace fp {

// What a rank that sums in host memory needs beside the tensors: the pieces of the others that it sums up.
size_t sum_scratch_bytes(const CommCall&, int rank, int size);

// to[i] = the sum or maximum of sources[0][i], sources[1][i], ... for n elements in host memory, f32 or bf16. Taken in
// this order, in f32, and rounded once; NaN is the maximum of anything and NaN. `to` may be one of the sources.
void reduce_in_order(void* to, std::span<const void* const> sources, int64_t n, DType, Reduction);

}  // namespace fp
