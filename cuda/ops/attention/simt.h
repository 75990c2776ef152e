// Shared parts of the f32 attention kernels. A block of 128 threads multiplies its own rows with streamed tiles, by
// plain FMA out of shared memory.
//
// A warp owns consecutive rows. A lane holds every fourth of them, so that 8 neighbouring lanes share a row. With
// c = lane % 8, a lane holds the columns c, c + 8, ... of the kStream columns of scores, and 4c .. 4c+3, 32 + 4c .. and
// so on of the D columns of a result.
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
// Return the bytes of shared memory of a block of these kernels.
size_t simt_forward_shared(int head_dim, bool drops);
size_t simt_backward_shared(int head_dim, bool drops);

constexpr int kLargestSimtHead = 256;

template <class F>
void with_simt_head_size(int head_dim, F&& f) {
  if (head_dim <= 64) return f(std::integral_constant<int, 64>{});
  if (head_dim <= 128) return f(std::integral_constant<int, 128>{});
  f(std::integral_constant<int, kLargestSimtHead>{});
}

constexpr int kRowLanes = 8;  // lanes that share a row

template <int D>
struct SimtTiles {
  static constexpr int kThreads = 128, kRowSlots = D <= 128 ? 4 : 2, kWarpRows = kRowSlots * kWarp / kRowLanes;
  static constexpr int kOwn = kWarpRows * kThreads / kWarp;
  static constexpr int kStream = D <= 128 ? 32 : 16, kColumnSlots = kStream / kRowLanes;
  static constexpr int kWeightRow = kStream + 4;  // row stride of a tile of probabilities
  using Scores = float[kRowSlots][kColumnSlots];
  using Result = float[kRowSlots][D / 32][4];
};

// The row, within the warp's rows, and the column, within the tile, of a lane's slot.
__device__ __forceinline__ int row_of(int slot) { return lane_id() / kRowLanes + kWarp / kRowLanes * slot; }
__device__ __forceinline__ int column_of(int slot) { return lane_id() % kRowLanes + kRowLanes * slot; }

// Calls f(element, spot) for the scores of this lane.
template <int M, int N, class F>
__device__ __forceinline__ void for_each(float (&s)[M][N], F&& f) {
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int j = 0; j < N; ++j) f(s[i][j], Spot{row_of(i), i, column_of(j)});
}

// Calls f(element of s, element of t, spot) for two score tiles of the same shape.
template <int M, int N, class F>
__device__ __forceinline__ void for_each_pair(float (&s)[M][N], float (&t)[M][N], F&& f) {
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int j = 0; j < N; ++j) f(s[i][j], t[i][j], Spot{row_of(i), i, column_of(j)});
}

// s = a b^T over D columns; a are the warp's rows of a tile.
template <int D, int M, int N>
__device__ __forceinline__ void dot_rows_of_tiles(float (&s)[M][N], const float* a, const float* b) {
  for_each(s, [](float& x, Spot) { x = 0; });
  for (int k = 0; k < D; k += 4) {
    Vec<float, 4> left[M];
    for (int i = 0; i < M; ++i) left[i] = load<4>(a + row_of(i) * kTileRow<float, D> + k);
    for (int j = 0; j < N; ++j) {
      const Vec<float, 4> right = load<4>(b + column_of(j) * kTileRow<float, D> + k);
      for (int i = 0; i < M; ++i)
        for (int e = 0; e < 4; ++e) s[i][j] += left[i].at[e] * right.at[e];
    }
  }
}

// Stores this lane's scores in the warp's rows of `weights`, where the other lanes of its rows read them.
template <int D>
__device__ __forceinline__ void put_weights(float* weights, typename SimtTiles<D>::Scores& s) {
  for_each(s, [&](float& x, Spot at) { weights[at.row * SimtTiles<D>::kWeightRow + at.column] = x; });
  __syncwarp();
}

// c += weights b, where b is a tile of kStream rows.
template <int D>
__device__ __forceinline__ void add_weighted_rows(typename SimtTiles<D>::Result& c, const float* weights,
                                                  const float* b) {
  using T = SimtTiles<D>;
  for (int k = 0; k < T::kStream; ++k) {
    float w[T::kRowSlots];
    for (int i = 0; i < T::kRowSlots; ++i) w[i] = weights[row_of(i) * T::kWeightRow + k];
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
      const Vec<float, 4> right = load<4>(b + k * kTileRow<float, D> + 32 * j + 4 * column_of(0));
      for (int i = 0; i < T::kRowSlots; ++i)
        for (int e = 0; e < 4; ++e) c[i][j][e] += w[i] * right.at[e];
    }
  }
}

// Writes factor[i] * c, or adds it, for the first `count` of the warp's rows, to rows `step` elements apart and
// `columns` wide.
template <int D>
__device__ __forceinline__ void store_result(float* to, int step, int count, int columns, bool aligned,
                                             const typename SimtTiles<D>::Result& c,
                                             const float (&factor)[SimtTiles<D>::kRowSlots], bool add = false) {
#pragma unroll
  for (int i = 0; i < SimtTiles<D>::kRowSlots; ++i)
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
      const int column = 32 * j + 4 * column_of(0);
      if (row_of(i) >= count || column >= columns) continue;
      Vec<float, 4> out;
      float* at = to + int64_t{row_of(i)} * step + column;
      for (int e = 0; e < 4; ++e) {
        const float old = add && column + e < columns ? at[e] : 0.0f;
        out.at[e] = old + factor[i] * c[i][j][e];
      }
      if (aligned)
        store<4>(at, out);
      else
        for (int e = 0; e < 4 && column + e < columns; ++e) at[e] = out.at[e];
    }
}

}  // namespace fp::cuda
