// Dispatch and launch grids of kernels on rows: by type and width of access, a block for each row or range of a row.
#pragma once

#include <type_traits>

#include "base/error.h"
#include "cuda/device/async_copy.h"
#include "cuda/device/launch.h"
#include "cuda/device/vector.h"
#include "cuda/device/warp.h"
#include "cuda/runtime/device.h"

namespace fp::cuda {

// Calls f(bf16) or f(float).
template <class F>
void by_type(DType compute, F&& f) {
  compute == DType::bf16 ? f(bf16{}) : f(0.0f);
}

// Calls f(std::integral_constant<int, N>) with N = widest<T>(row_elements, addresses).
template <class T, class F>
void by_width(int64_t row_elements, std::initializer_list<const void*> addresses, F&& f) {
  widest<T>(row_elements, addresses) > 1 ? f(std::integral_constant<int, kWide<T>>{})
                                         : f(std::integral_constant<int, 1>{});
}

// Returns the threads for `items` items, in whole warps, at most `most`.
inline unsigned threads_for(int64_t items, int64_t most) {
  return static_cast<unsigned>(std::min((items + kWarp - 1) / kWarp * kWarp, most));
}

// A grid with a thread for each of the `items` items of each row: row blockIdx.x, item row_item().
inline Grid row_grid(int64_t rows, int64_t items) {
  constexpr int64_t kMost = 256;
  const int64_t stretches = (items + kMost - 1) / kMost;
  return {dim3(static_cast<unsigned>(rows), static_cast<unsigned>(stretches)),
          threads_for((items + stretches - 1) / stretches, kMost)};
}
__device__ __forceinline__ int row_item() { return static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x); }

constexpr size_t kReductionBytes = 1024;  // of shared memory, at most

// Returns whether a block of this GPU can keep a row of `row_bytes` bytes in shared memory.
inline bool keeps(size_t row_bytes, const DeviceFacts& gpu) {
  return row_bytes + kReductionBytes <= gpu.shared_per_block;
}

// A grid for rows of `items` items that stay in shared memory. Thread (x, y) works on row kept_row() with the others of
// the same y: a warp where its lanes get at most 8 items each, else the block. Throws ConfigError unless keeps().
inline Grid kept_row_grid(const char* op, int64_t rows, int64_t items, size_t row_bytes, const DeviceFacts& gpu) {
  if (!keeps(row_bytes, gpu))
    throw ConfigError(fmt::format("{}: a row takes {} bytes of shared memory; blocks of {} have {}", op, row_bytes,
                                  gpu.name, gpu.shared_per_block - kReductionBytes));
  constexpr int64_t kLaneItems = 8, kThreadItems = 4;
  if (items > kLaneItems * kWarp)
    return {static_cast<unsigned>(rows), threads_for((items + kThreadItems - 1) / kThreadItems, 512), row_bytes};
  // Blocks of at most 32 KiB leave little of a multiprocessor's shared memory unused.
  unsigned block_rows = 4;
  while (block_rows > 1 && block_rows * row_bytes > 32 * 1024) block_rows /= 2;
  return {static_cast<unsigned>((rows + block_rows - 1) / block_rows), dim3(kWarp, block_rows), block_rows * row_bytes};
}
__device__ __forceinline__ int64_t kept_row() { return int64_t{blockIdx.x} * blockDim.y + threadIdx.y; }

// Reduces over the threads of a row in kept_row_grid(); all of them get the result.
template <class Fold, class T>
__device__ __forceinline__ T row_fold(T x) {
  return blockDim.x == kWarp ? warp_fold<Fold>(x) : block_fold<Fold>(x);
}

// Starts to copy a row to shared memory. Each thread copies the elements [c, c + N) with c = N * (threadIdx.x +
// i * blockDim.x), and sees them after wait_for_rows().
template <int N, class T>
__device__ __forceinline__ void fetch_row(T* kept, const T* row, int cols) {
#pragma unroll 4
  for (int c = static_cast<int>(threadIdx.x) * N; c < cols; c += static_cast<int>(blockDim.x) * N)
    if constexpr (N * sizeof(T) == 16)
      copy_async_16(kept + c, row + c);
    else
      store<N>(kept + c, load<N>(row + c));
}
__device__ __forceinline__ void wait_for_rows() {
  commit_copies();
  wait_copies<0>();
}

}  // namespace fp::cuda
