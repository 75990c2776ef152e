// Dispatch and launch grids of kernels on rows: by type and width of access, a block for each row or range of a row.
#pragma once

#include <type_traits>

#include "base/error.h"
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

// A grid with one block per row, which keeps `row_bytes` of it in shared memory. Throws ConfigError when a block of
// this GPU has less.
inline Grid kept_row_grid(const char* op, int64_t rows, int64_t items, size_t row_bytes, const DeviceFacts& gpu) {
  constexpr size_t kOther = 1024;  // used by reductions
  if (row_bytes + kOther > gpu.shared_per_block)
    throw ConfigError(fmt::format("{}: a row takes {} bytes of shared memory; blocks of {} have {}", op, row_bytes,
                                  gpu.name, gpu.shared_per_block - kOther));
  return {static_cast<unsigned>(rows), threads_for(items, 512), row_bytes};
}

}  // namespace fp::cuda
