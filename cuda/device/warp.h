// Reductions (sum, maximum, minimum) over a warp and over a block, in a fixed order: the same bits every time.
#pragma once

#include <cstdint>

#include "cuda/device/platform.h"

namespace fp::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

struct Sum {
  template <class T>
  static __device__ __forceinline__ T of(T a, T b) {
    return a + b;
  }
};
struct Max {
  static __device__ __forceinline__ float of(float a, float b) { return fmaxf(a, b); }
};
struct Min {
  template <class T>
  static __device__ __forceinline__ T of(T a, T b) {
    return b < a ? b : a;
  }
};

// Reduces over the `width` lanes (a power of two) of the thread's segment; all of them get the result.
template <class Fold, class T>
__device__ __forceinline__ T warp_fold(T x, int width = kWarp) {
  for (int bits = width / 2; bits > 0; bits /= 2) x = Fold::of(x, __shfl_xor_sync(kAllLanes, x, bits));
  return x;
}

// Reduces over all threads of the block (whole warps, one-dimensional, at most 1024); all of them get the result. Every
// thread must call it. It begins with a barrier, so calls may follow one another.
template <class Fold, class T>
__device__ __forceinline__ T block_fold(T x) {
  FP_SHARED(T, parts, kWarp);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  x = warp_fold<Fold>(x);
  __syncthreads();
  if (lane == 0) parts[warp] = x;
  __syncthreads();
  T all = parts[0];
  for (int i = 1; i < warps; ++i) all = Fold::of(all, parts[i]);
  return all;
}

}  // namespace fp::cuda
