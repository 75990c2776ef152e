// The parts of the CUDA language that kernel sources use, under their own names, on top of the execution layer.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>

#include "cuda_host/execution.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __restrict__ __restrict

#define threadIdx (::fp::cuda::host::current->thread)
#define blockIdx (::fp::cuda::host::current->block)
#define blockDim (::fp::cuda::host::current->block_size)
#define gridDim (::fp::cuda::host::current->grid_size)

#define FP_SHARED(type, name, count) \
  static const char name##_key = 0;  \
  type* const name =                 \
      static_cast<type*>(::fp::cuda::host::static_shared(&name##_key, sizeof(type) * (count), alignof(type)))
#define FP_DYNAMIC_SHARED(type, name) type* const name = static_cast<type*>(::fp::cuda::host::dynamic_shared())

#define FP_SITE_TEXT(line) #line
#define FP_SITE_LINE(line) FP_SITE_TEXT(line)
#define __syncthreads() ::fp::cuda::host::barrier(__FILE__ ":" FP_SITE_LINE(__LINE__))
#define __syncwarp() ::fp::cuda::host::warp_barrier(0xffffffffu, __FILE__ ":" FP_SITE_LINE(__LINE__))

using dim3 = fp::cuda::host::Dim3;

namespace fp::cuda {
struct HostStream;
using Stream = HostStream*;
}  // namespace fp::cuda

namespace fp::cuda::host {

// Argument and result of a lane in a shuffle.
template <class T>
struct Shuffle {
  T value, result;
  int source;  // lane whose value it wants
};

template <class T>
T shuffle(unsigned mask, T value, int source, const char* site) {
  Shuffle<T> mine{value, value, source};
  warp_operation(mask, site, &mine, [](Lanes& lanes) {
    for (int i = 0; i < 32; ++i) {
      if ((lanes.mask >> i & 1) == 0) continue;
      auto* to = static_cast<Shuffle<T>*>(lanes.argument[i]);
      if ((lanes.mask >> to->source & 1) == 0)
        complain("divergence", "a shuffle from a lane that is not in its mask");
      else
        to->result = static_cast<Shuffle<T>*>(lanes.argument[to->source])->value;
    }
  });
  return mine.result;
}

// Returns `target` when it lies in the lane's segment of `width` lanes, else the lane itself.
inline int in_segment(int lane, int target, int width) {
  const int first = lane / width * width;
  return target < first || target >= first + width ? lane : target;
}
inline int lane() { return static_cast<int>(current->lane()); }

struct Vote {
  bool predicate;
  unsigned ballot;
};
inline unsigned vote(unsigned mask, bool predicate, const char* site) {
  Vote mine{predicate, 0};
  warp_operation(mask, site, &mine, [](Lanes& lanes) {
    unsigned ballot = 0;
    for (int i = 0; i < 32; ++i)
      if (lanes.mask >> i & 1) ballot |= unsigned{static_cast<Vote*>(lanes.argument[i])->predicate} << i;
    for (int i = 0; i < 32; ++i)
      if (lanes.mask >> i & 1) static_cast<Vote*>(lanes.argument[i])->ballot = ballot;
  });
  return mine.ballot;
}

}  // namespace fp::cuda::host

template <class T>
T __shfl_sync(unsigned mask, T v, int source, int width = 32) {
  const int lane = fp::cuda::host::lane();
  return fp::cuda::host::shuffle(mask, v, lane / width * width + source % width, "__shfl_sync");
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32) {
  const int lane = fp::cuda::host::lane();
  return fp::cuda::host::shuffle(mask, v, fp::cuda::host::in_segment(lane, lane ^ bits, width), "__shfl_xor_sync");
}
template <class T>
T __shfl_down_sync(unsigned mask, T v, int delta, int width = 32) {
  const int lane = fp::cuda::host::lane();
  return fp::cuda::host::shuffle(mask, v, fp::cuda::host::in_segment(lane, lane + delta, width), "__shfl_down_sync");
}
template <class T>
T __shfl_up_sync(unsigned mask, T v, int delta, int width = 32) {
  const int lane = fp::cuda::host::lane();
  return fp::cuda::host::shuffle(mask, v, fp::cuda::host::in_segment(lane, lane - delta, width), "__shfl_up_sync");
}
inline unsigned __ballot_sync(unsigned mask, bool p) { return fp::cuda::host::vote(mask, p, "__ballot_sync"); }
inline bool __any_sync(unsigned mask, bool p) { return fp::cuda::host::vote(mask, p, "__any_sync") != 0; }
inline bool __all_sync(unsigned mask, bool p) { return fp::cuda::host::vote(mask, p, "__all_sync") == mask; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(unsigned x) { return __builtin_ffs(static_cast<int>(x)); }

inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

// Atomics are plain operations, as the layer runs one thread at a time; their accesses are marked as atomic.
namespace fp::cuda::host {
void touch_atomically(const void* address, size_t bytes);
template <class T, class F>
__attribute__((no_sanitize_thread)) T atomically(T* p, F&& f) {
  touch_atomically(p, sizeof(T));
  T old;
  std::memcpy(&old, p, sizeof(T));
  const T next = f(old);
  std::memcpy(static_cast<void*>(p), &next, sizeof(T));
  return old;
}
}  // namespace fp::cuda::host
template <class T>
__attribute__((no_sanitize_thread)) T atomicAdd(T* p, T x) {
  return fp::cuda::host::atomically(p, [x](T old) { return old + x; });
}
template <class T>
__attribute__((no_sanitize_thread)) T atomicMax(T* p, T x) {
  return fp::cuda::host::atomically(p, [x](T old) { return std::max(old, x); });
}
template <class T>
__attribute__((no_sanitize_thread)) T atomicExch(T* p, T x) {
  return fp::cuda::host::atomically(p, [x](T) { return x; });
}
template <class T>
__attribute__((no_sanitize_thread)) T atomicCAS(T* p, T expected, T x) {
  return fp::cuda::host::atomically(p, [=](T old) { return old == expected ? x : old; });
}
