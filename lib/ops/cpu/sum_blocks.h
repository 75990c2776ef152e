// Sums over long arrays, taken in blocks of a fixed size. Threads share the blocks, and the bits of the result do not
// depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/cpu/kernels.h"

namespace fp::cpu {

constexpr int64_t kSumBlock = int64_t{1} << 15;  // elements

inline void append_blocks(std::vector<Block>& blocks, int64_t first, int64_t count) {
  for (int64_t i = 0; i < count; i += kSumBlock) blocks.push_back({first + i, std::min(kSumBlock, count - i)});
}

inline size_t blocks_in(int64_t count) { return static_cast<size_t>((count + kSumBlock - 1) / kSumBlock); }

// Computes bit_sums() of an array from those of its blocks, in order: two words every `stride`.
inline void fold_bit_sums(int32_t* sums, const uint32_t* partial, size_t blocks, size_t stride) {
  uint32_t sum = 0, weighted = 0;
  for (size_t b = 0; b < blocks; ++b, partial += stride) {
    sum += partial[0];
    weighted += partial[1] + 2 * static_cast<uint32_t>(b) * static_cast<uint32_t>(kSumBlock) * partial[0];
  }
  sums[0] = static_cast<int32_t>(sum);
  sums[1] = static_cast<int32_t>(weighted);
}

// Computes piece_sums() of one piece from those of its blocks: a sum and a sum of magnitudes for each.
inline void fold_piece_sums(float* sums, const double* partial, size_t blocks) {
  double sum = 0, magnitude = 0;
  for (size_t b = 0; b < blocks; ++b) {
    sum += partial[2 * b];
    magnitude += partial[2 * b + 1];
  }
  sums[0] = static_cast<float>(sum);
  sums[1] = static_cast<float>(magnitude);
}

}  // namespace fp::cpu
