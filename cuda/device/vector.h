// Vectors of elements in registers: N consecutive elements moved by one access of up to 16 bytes, and conversions to
// and from f32.
//
// load<N>(p) and store<N>(p, v) need p aligned to N elements; widest(...) returns the N that a kernel may use.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "cuda/device/platform.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#endif

namespace fp::cuda {

template <class T, int N>
struct alignas(N * sizeof(T)) Vec {
  T at[N];
};

// Number of elements of T in 16 bytes.
template <class T>
constexpr int kWide = 16 / static_cast<int>(sizeof(T));

template <int N, class T>
__device__ __forceinline__ Vec<T, N> load(const T* p) {
  static_assert(N * sizeof(T) <= 16);
#ifdef FP_CUDA_HOST
  host::check_alignment(p, N * sizeof(T));
#endif
  return *reinterpret_cast<const Vec<T, N>*>(p);
}

template <int N, class T>
__device__ __forceinline__ void store(T* p, const Vec<T, N>& v) {
  static_assert(N * sizeof(T) <= 16);
#ifdef FP_CUDA_HOST
  host::check_alignment(p, N * sizeof(T));
#endif
  *reinterpret_cast<Vec<T, N>*>(p) = v;
}

// Loads and stores N floats by accesses of up to 16 bytes. N is at most 4 or a multiple of 4; p must be aligned to
// min(N, 4) elements.
template <int N>
__device__ __forceinline__ void load_floats(float (&x)[N], const float* p) {
  constexpr int kStep = N < 4 ? N : 4;
  for (int i = 0; i < N; i += kStep) {
    const auto v = load<kStep>(p + i);
    for (int j = 0; j < kStep; ++j) x[i + j] = v.at[j];
  }
}

template <int N>
__device__ __forceinline__ void store_floats(float* p, const float (&x)[N]) {
  constexpr int kStep = N < 4 ? N : 4;
  for (int i = 0; i < N; i += kStep) {
    Vec<float, kStep> v;
    for (int j = 0; j < kStep; ++j) v.at[j] = x[i + j];
    store<kStep>(p + i, v);
  }
}

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(bf16 x) {
#ifdef __CUDA_ARCH__
  float y;  // one instruction, also for the high half of a register
  asm("mov.b32 %0, {%1, %2};" : "=f"(y) : "h"(uint16_t{0}), "h"(x.bits));
  return y;
#else
  return __uint_as_float(static_cast<uint32_t>(x.bits) << 16);
#endif
}

template <class T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float x) {
#ifdef __CUDA_ARCH__
  bf16 y;  // the conversion of pairs has four times the rate of that of single values
  y.bits = __bfloat16_as_ushort(__low2bfloat16(__floats2bfloat162_rn(x, 0.0f)));
  return y;
#else
  return bf16(x);
#endif
}

// Returns x rounded to T.
template <class T>
__device__ __forceinline__ float rounded(float x) {
  return to_float(from_float<T>(x));
}

// Products and sums that no compiler fuses into one rounding, so that their bits are those of the host.
__device__ __forceinline__ float rounded_product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
__device__ __forceinline__ float rounded_sum(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

// Packs two values as bf16 into one register, the first in the low half.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
#ifdef __CUDA_ARCH__
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
#else
  return uint32_t{bf16(low).bits} | uint32_t{bf16(high).bits} << 16;
#endif
}

// Returns the number of elements that one access may move in all these rows: kWide<T> when every address and the row
// length are multiples of 16 bytes, else 1. Null addresses (operands left out) are ignored.
template <class T>
int widest(int64_t row_elements, std::initializer_list<const void*> addresses) {
  uintptr_t bits = static_cast<uintptr_t>(row_elements) * sizeof(T);
  for (const void* p : addresses) bits |= reinterpret_cast<uintptr_t>(p);
  return bits % 16 == 0 ? kWide<T> : 1;
}

}  // namespace fp::cuda
