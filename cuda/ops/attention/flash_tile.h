// Tensor-core products of a warp on tiles of bf16 rows (tile.h). Accumulators follow mma.h: element e of the 16x8 piece
// [m][n] is row 16m + lane/4 + 8(e/2), column 8n + 2(lane%4) + e%2.
#pragma once

#include "cuda/device/mma.h"
#include "cuda/ops/attention/tile.h"

namespace fp::cuda {

__device__ __forceinline__ int lane_row() { return lane_id() / 4; }
__device__ __forceinline__ int lane_column() { return lane_id() % 4 * 2; }

// Calls f(element, spot) for each element that this lane holds of the warp's accumulators.
template <int M, int N, class F>
__device__ __forceinline__ void for_each(float (&c)[M][N][4], F&& f) {
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        f(c[m][n][e], Spot{16 * m + lane_row() + e / 2 * 8, 2 * m + e / 2, 8 * n + lane_column() + e % 2});
}
// Calls f(element of c, element of d, spot) for two accumulators of the same shape.
template <int M, int N, class F>
__device__ __forceinline__ void for_each_pair(float (&c)[M][N][4], float (&d)[M][N][4], F&& f) {
  int i = 0;
  for_each(c, [&](float& x, Spot at) {
    float& y = d[i / (4 * N)][i / 4 % N][i % 4];
    ++i;
    f(x, y, at);
  });
}

// c += a b^T over D columns: a are the warp's 16 M rows of a tile, b the first 8 N rows of a tile.
template <int D, int M, int N>
__device__ __forceinline__ void add_product_transposed(float (&c)[M][N][4], const bf16* a, const bf16* b) {
  const int lane = lane_id();
  a += lane % 16 * kTileRow<bf16, D> + lane / 16 * 8;
  b += (lane / 16 * 8 + lane % 8) * kTileRow<bf16, D> + lane / 8 % 2 * 8;
#pragma unroll
  for (int k = 0; k < D; k += 16) {
    uint32_t left[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m) ldmatrix_x4<false>(left[m], a + 16 * m * kTileRow<bf16, D> + k);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      uint32_t right[4];
      ldmatrix_x4<false>(right, b + 8 * n * kTileRow<bf16, D> + k);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        mma_16816(c[m][n], left[m], right[0], right[1]);
        mma_16816(c[m][n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// c += p b: p are accumulators rounded to bf16, b the first 8 K rows of a tile, beginning at the column it points at.
template <int D, int M, int K, int N>
__device__ __forceinline__ void add_product(float (&c)[M][N][4], const float (&p)[M][K][4], const bf16* b) {
  b += lane_id() % 16 * kTileRow<bf16, D> + lane_id() / 16 * 8;
#pragma unroll
  for (int k = 0; k < K; k += 2) {
    uint32_t left[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i) left[m][i] = pack_bf16(p[m][k + i / 2][i % 2 * 2], p[m][k + i / 2][i % 2 * 2 + 1]);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      uint32_t right[4];
      ldmatrix_x4<true>(right, b + 8 * k * kTileRow<bf16, D> + 8 * n);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        mma_16816(c[m][n], left[m], right[0], right[1]);
        mma_16816(c[m][n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// c += the first `count` of the warp's 16 rows at `from`, `step` elements apart and `columns` wide.
template <int N>
__device__ __forceinline__ void add_rows(float (&c)[1][N][4], const bf16* from, int step, int count, int columns) {
  for_each(c, [&](float& x, Spot at) {
    if (at.row < count && at.column < columns) x += to_float(from[int64_t{at.row} * step + at.column]);
  });
}

// Writes the first `count` of the warp's 16 rows to rows `step` elements apart and `columns` wide. `tile`: 16 rows of
// shared memory that only this warp uses and whose content is no longer needed.
template <int D, int N>
__device__ __forceinline__ void store_rows(bf16* to, int step, int count, int columns, bool aligned,
                                           const float (&c)[N][4], bf16* tile) {
  __syncwarp();
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Vec<bf16, 2> pair{from_float<bf16>(c[n][2 * half]), from_float<bf16>(c[n][2 * half + 1])};
      store<2>(tile + (lane_row() + 8 * half) * kTileRow<bf16, D> + 8 * n + lane_column(), pair);
    }
  __syncwarp();
  for (int i = lane_id(); i < 16 * N; i += kWarp) {
    const int row = i / N, column = i % N * 8;
    if (row >= count || column >= columns) continue;
    const Vec<bf16, 8> chunk = load<8>(tile + row * kTileRow<bf16, D> + column);
    bf16* at = to + int64_t{row} * step + column;
    if (aligned)
      store<8>(at, chunk);
    else
      for (int e = 0; e < 8 && column + e < columns; ++e) at[e] = chunk.at[e];
  }
}

}  // namespace fp::cuda
