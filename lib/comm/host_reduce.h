// Reductions in host memory, for the worlds that sum on the host (thread, mpi). In an all-reduce each rank reduces its
// part of the elements (base/even_split.h).
#pragma once

#include <span>

#include "base/even_split.h"
#include "comm/comm.h"

namespace fp {

// Returns the bytes that `rank` of `size` ranks needs beside the tensors of a call when it sums in host memory: space
// for the pieces of the other ranks.
size_t sum_scratch_bytes(const CommCall&, int rank, int size);

// Computes to[i] = the sum or maximum of sources[0][i], sources[1][i], ... for n elements in host memory, f32 or bf16:
// in this order, in f32, rounded once. The maximum of NaN and anything is NaN. `to` may be one of the sources.
void reduce_in_order(void* to, std::span<const void* const> sources, int64_t n, DType, Reduction);

}  // namespace fp
