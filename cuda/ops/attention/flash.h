// Shared parts of the flash attention kernels: head sizes, tile sizes and the mask on score tiles.
#pragma once

#include <type_traits>

#include "cuda/device/launch.h"
#include "cuda/device/math.h"
#include "cuda/ops/attention/flash_tile.h"
#include "cuda/ops/attention/operands.h"

namespace fp::cuda {

// Implemented in flash_forward.cu, flash_backward_keys.cu (dk, dv) and flash_backward_queries.cu (dq).
void flash_forward(const Operands<bf16>&, Stream);
void flash_backward_keys(const Operands<bf16>&, Stream);
void flash_backward_queries(const Operands<bf16>&, Stream);
// Return the bytes of shared memory of a block of these kernels.
size_t flash_forward_shared(int head_dim, bool drops);
size_t flash_keys_shared(int head_dim, bool drops);
size_t flash_queries_shared(int head_dim, bool drops);

constexpr int kLargestFlashHead = 256;

// Calls f(std::integral_constant<int, D>) with the head size D to which head_dim is padded.
template <class F>
void with_head_size(int head_dim, F&& f) {
  if (head_dim <= 64) return f(std::integral_constant<int, 64>{});
  if (head_dim <= 80) return f(std::integral_constant<int, 80>{});
  if (head_dim <= 96) return f(std::integral_constant<int, 96>{});
  if (head_dim <= 128) return f(std::integral_constant<int, 128>{});
  f(std::integral_constant<int, kLargestFlashHead>{});
}

// Tiles of the backward kernels: a block owns kOwn rows of two tensors and streams kStream rows of two others.
template <int D>
struct BackwardTiles {
  static constexpr int kWarps = D <= 128 ? 8 : 4, kThreads = kWarps * kWarp;
  static constexpr int kOwn = 16 * kWarps, kStream = D <= 128 ? 64 : 32;
  static constexpr int kElements = 2 * kTile<bf16, D>(kOwn) + 4 * kTile<bf16, D>(kStream);
};

constexpr int tiles_of(int rows, int tile) { return (rows + tile - 1) / tile; }

// Sets every score whose query does not see its key to -infinity. Rows are queries and columns keys, or vice versa.
template <bool RowsAreQueries, int M, int N>
__device__ __forceinline__ void hide(float (&s)[M][N][4], const HeadMask& mask, int first_row, int first_column) {
  const auto row = [&](int i) {
    if constexpr (RowsAreQueries) return mask.query(first_row + i);
    if constexpr (!RowsAreQueries) return mask.key(first_row + i);
  };
  const auto column = [&](int i) {
    if constexpr (RowsAreQueries) return mask.key(first_column + i);
    if constexpr (!RowsAreQueries) return mask.query(first_column + i);
  };
  decltype(row(0)) rows[2 * M];
#pragma unroll
  for (int i = 0; i < 2 * M; ++i) rows[i] = row(8 * i + lane_row());
#pragma unroll
  for (int j = 0; j < 2 * N; ++j) {
    const auto there = column(j / 2 * 8 + lane_column() + j % 2);
#pragma unroll
    for (int i = 0; i < 2 * M; ++i)
      if (!sees(rows[i], there)) s[i / 2][j / 2][i % 2 * 2 + j % 2] = -INFINITY;
  }
}

}  // namespace fp::cuda
