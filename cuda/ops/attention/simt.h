// What the f32 kernels of attention share: tiles of 32 rows against streamed tiles, products by plain FMA out of shared
// memory, 128 threads.
//
// Of 32 rows a thread has rows r and r + 16 with r = thread / 8, so that 8 neighbouring lanes share a row. Of the
// Stream columns of scores it has c, c + 8, ... with c = thread % 8; of the D columns of a result 4c .. 4c+3, 32 + 4c
// .. and so on.
#pragma once

#include <type_traits>

#include "cuda/device/launch.h"
#include "cuda/device/math.h"
#include "cuda/ops/attention/operands.h"
#include "cuda/ops/attention/tile.h"

namespace fp::cuda {

// Implemented in simt_forward.cu and simt_backward.cu.
void simt_forward(const Operands<float>&, Stream);
void simt_backward(const Operands<float>&, Stream);

constexpr int kLargestSimtHead = 256;

template <class F>
void with_simt_head_size(int head_dim, F&& f) {
  if (head_dim <= 64) return f(std::integral_constant<int, 64>{});
  if (head_dim <= 128) return f(std::integral_constant<int, 128>{});
  f(std::integral_constant<int, kLargestSimtHead>{});
}

constexpr int kRowSlots = 2, kSharers = 8;  // rows of a thread; threads of a row

template <int D>
struct SimtTiles {
  static constexpr int kThreads = 128, kOwn = kRowSlots * kThreads / kSharers;
  static constexpr int kStream = D <= 128 ? 32 : 16, kColumnSlots = kStream / kSharers;
  static constexpr int kWeightRow = kStream + 4;  // of a tile of probabilities
  using Scores = float[kRowSlots][kColumnSlots];
  using Result = float[kRowSlots][D / 32][4];
};

__device__ __forceinline__ int row_of(int slot) { return static_cast<int>(threadIdx.x) / kSharers + 16 * slot; }
__device__ __forceinline__ int column_of(int slot) {
  return static_cast<int>(threadIdx.x) % kSharers + kSharers * slot;
}

// f(element, row, column) for the scores of this thread.
template <int N, class F>
__device__ __forceinline__ void for_each_score(float (&s)[kRowSlots][N], F&& f) {
#pragma unroll
  for (int i = 0; i < kRowSlots; ++i)
#pragma unroll
    for (int j = 0; j < N; ++j) f(s[i][j], row_of(i), column_of(j));
}

// s = a b^T over D columns.
template <int D, int N>
__device__ __forceinline__ void dot_rows_of_tiles(float (&s)[kRowSlots][N], const float* a, const float* b) {
  for_each_score(s, [](float& x, int, int) { x = 0; });
  for (int k = 0; k < D; k += 4) {
    Vec<float, 4> left[kRowSlots];
    for (int i = 0; i < kRowSlots; ++i) left[i] = load<4>(a + row_of(i) * kTileRow<float, D> + k);
    for (int j = 0; j < N; ++j) {
      const Vec<float, 4> right = load<4>(b + column_of(j) * kTileRow<float, D> + k);
      for (int i = 0; i < kRowSlots; ++i)
        for (int e = 0; e < 4; ++e) s[i][j] += left[i].at[e] * right.at[e];
    }
  }
}

// Lays this thread's scores where its row's other threads find them; `weights` may not be in use any more.
template <int D>
__device__ __forceinline__ void put_weights(float* weights, typename SimtTiles<D>::Scores& s) {
  for_each_score(s, [&](float& x, int row, int column) { weights[row * SimtTiles<D>::kWeightRow + column] = x; });
}

// c += weights b, b a tile of Stream rows.
template <int D>
__device__ __forceinline__ void add_weighted_rows(typename SimtTiles<D>::Result& c, const float* weights,
                                                  const float* b) {
  for (int k = 0; k < SimtTiles<D>::kStream; ++k) {
    float w[kRowSlots];
    for (int i = 0; i < kRowSlots; ++i) w[i] = weights[row_of(i) * SimtTiles<D>::kWeightRow + k];
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
      const Vec<float, 4> right = load<4>(b + k * kTileRow<float, D> + 32 * j + 4 * column_of(0));
      for (int i = 0; i < kRowSlots; ++i)
        for (int e = 0; e < 4; ++e) c[i][j][e] += w[i] * right.at[e];
    }
  }
}

// Writes factor[i] * c, `count` rows `step` apart and `columns` wide.
template <int D>
__device__ __forceinline__ void store_result(float* to, int step, int count, int columns, bool aligned,
                                             const typename SimtTiles<D>::Result& c, const float (&factor)[kRowSlots]) {
#pragma unroll
  for (int i = 0; i < kRowSlots; ++i)
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
      const int column = 32 * j + 4 * column_of(0);
      if (row_of(i) >= count || column >= columns) continue;
      Vec<float, 4> out;
      for (int e = 0; e < 4; ++e) out.at[e] = factor[i] * c[i][j][e];
      float* at = to + int64_t{row_of(i)} * step + column;
      if (aligned)
        store<4>(at, out);
      else
        for (int e = 0; e < 4 && column + e < columns; ++e) at[e] = out.at[e];
    }
}

}  // namespace fp::cuda
