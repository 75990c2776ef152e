// Tiles of rows in shared memory and the loop that streams them.
//
// A row of a tile is D elements (the head size, padded with zeros) and 16 bytes of padding. So rows are an odd number
// of 16-byte chunks apart, and chunks of 8 consecutive rows lie in different banks.
#pragma once

#include <bit>

#include "cuda/device/async_copy.h"
#include "cuda/device/vector.h"
#include "cuda/device/warp.h"

namespace fp::cuda {

template <class T, int D>
constexpr int kTileRow = D + kWide<T>;
// Number of elements of a tile.
template <class T, int D>
constexpr int kTile(int rows) {
  return rows * kTileRow<T, D>;
}

__device__ __forceinline__ int lane_id() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ __forceinline__ int warp_id() { return static_cast<int>(threadIdx.x) / kWarp; }

// Position of an element of a lane's scores: row within the warp's rows, index of that row among the lane's, column.
struct Spot {
  int row, slot, column;
};

// Copies rows of `columns` elements, `step` apart, into a tile of Rows rows. Called by all threads of the block. Rows
// from `count` on and columns from `columns` on become 0. Aligned rows are copied asynchronously in the open group of
// copies, others synchronously.
template <int D, int Rows, int Threads, class T>
__device__ __forceinline__ void load_tile(T* tile, const T* from, int step, int count, int columns, bool aligned) {
  constexpr int kChunks = D / kWide<T>;
  constexpr int kLanes = static_cast<int>(std::bit_ceil(static_cast<unsigned>(kChunks)));  // lanes per row
  constexpr int kRows = Threads / kLanes;                                                  // at a time
  static_assert(Rows % kRows == 0);
  const int first = static_cast<int>(threadIdx.x) / kLanes;
  const int column = static_cast<int>(threadIdx.x) % kLanes * kWide<T>;
  if (column >= D) return;
  T* to = tile + first * kTileRow<T, D> + column;
  const T* source = from + int64_t{first} * step + column;
#pragma unroll
  for (int row = first; row < first + Rows;
       row += kRows, to += kRows * kTileRow<T, D>, source += int64_t{kRows} * step) {
    const bool inside = row < count && column < columns;
    if (aligned) {
      copy_async_16(to, inside ? source : from, inside ? 16 : 0);
      continue;
    }
    Vec<T, kWide<T>> chunk;
    for (int e = 0; e < kWide<T>; ++e) chunk.at[e] = inside && column + e < columns ? source[e] : from_float<T>(0.0f);
    store<kWide<T>>(to, chunk);
  }
}

// Double-buffered loop over the tiles in [tile, end) for which wanted(tile) is true: issue(tile, buffer) starts copying
// one into buffer 0 or 1, and compute(tile, buffer) runs when it has arrived, while the next one is being copied.
// Called by all threads of the block; copies issued before join the first group.
template <class Wanted, class Issue, class Compute>
__device__ __forceinline__ void stream_tiles(int tile, int end, Wanted&& wanted, Issue&& issue, Compute&& compute) {
  while (tile < end && !wanted(tile)) ++tile;
  if (tile < end) issue(tile, 0);
  commit_copies();
  for (int buffer = 0; tile < end; buffer ^= 1) {
    int next = tile + 1;
    while (next < end && !wanted(next)) ++next;
    if (next < end) issue(next, buffer ^ 1);
    commit_copies();
    wait_copies<1>();
    __syncthreads();
    compute(tile, buffer);
    __syncthreads();
    tile = next;
  }
  wait_copies<0>();
  __syncthreads();  // when no tile was wanted, this makes earlier copies visible to all threads
}

}  // namespace fp::cuda
