// Vectors of 32-bit lanes, as wide as the instruction set that this file is compiled for, by the compiler's vector
// extensions. Everything here is always inlined, so that nothing becomes a function that code for another instruction
// set could call.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/dtype.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define FP_INLINE static inline __attribute__((always_inline))

namespace fp::cpu::FP_ISA {

// The kernels of the AMX twin (amx.h) have the lanes of AVX-512 in any instruction set.
#if defined(__AVX512F__) || defined(FP_AMX_TWIN)
#define FP_LANES 16
#elif defined(__AVX2__)
#define FP_LANES 8
#else
#define FP_LANES 4
#endif
constexpr int kLanes = FP_LANES;

typedef float Vf __attribute__((vector_size(4 * kLanes)));
typedef int32_t Vi __attribute__((vector_size(4 * kLanes)));
typedef uint32_t Vu __attribute__((vector_size(4 * kLanes)));
typedef uint16_t Vh __attribute__((vector_size(2 * kLanes)));

FP_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
FP_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

FP_INLINE Vf splat(float x) { return x - Vf{}; }
FP_INLINE Vi splat_int(int32_t x) { return x - Vi{}; }
FP_INLINE Vu splat_bits(uint32_t x) { return x - Vu{}; }
FP_INLINE Vf as_float(Vu x) { return reinterpret_cast<Vf>(x); }
FP_INLINE Vu as_bits(Vf x) { return reinterpret_cast<Vu>(x); }
FP_INLINE Vf max(Vf a, Vf b) { return a > b ? a : b; }

FP_INLINE Vf magnitude_of(Vf x) { return as_float(as_bits(x) & 0x7fffffffu); }

FP_INLINE Vf sqrt(Vf x) {
#if defined(__AVX512F__)
  return reinterpret_cast<Vf>(_mm512_sqrt_ps(reinterpret_cast<__m512>(x)));
#elif FP_LANES == 8
  return reinterpret_cast<Vf>(_mm256_sqrt_ps(reinterpret_cast<__m256>(x)));
#elif FP_LANES == 4 && defined(__SSE2__)
  return reinterpret_cast<Vf>(_mm_sqrt_ps(reinterpret_cast<__m128>(x)));
#else
  for (int i = 0; i < kLanes; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}

// Conversions between float and bf16 in the low halves of 32-bit words. They round to nearest even as fp::bf16 does,
// and NaN stays NaN; the AVX512-BF16 instruction treats denormal numbers as 0.
FP_INLINE Vf from_bf16(Vh h) { return as_float(__builtin_convertvector(h, Vu) << 16); }
FP_INLINE Vu round_bf16_bits_exactly(Vf x) {
  const Vu u = as_bits(x);
  const Vu rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return (u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded;
}
FP_INLINE Vu round_bf16_bits(Vf x) {
#ifdef __AVX512BF16__
  const __m256bh h = _mm512_cvtneps_pbh(reinterpret_cast<__m512>(x));
  return reinterpret_cast<Vu>(_mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(h)));
#endif
  return round_bf16_bits_exactly(x);
}
FP_INLINE Vh to_bf16(Vf x) {
#ifdef __AVX512BF16__
  return reinterpret_cast<Vh>(_mm512_cvtneps_pbh(reinterpret_cast<__m512>(x)));
#endif
  return __builtin_convertvector(round_bf16_bits(x), Vh);
}

// A whole vector, or its first n lanes (the rest read as 0 and are not written).
struct Full {};
struct Part {
  int n;
};

FP_INLINE Vf load(const float* p, Full = {}) {
  Vf v;
  memcpy(&v, p, sizeof v);
  return v;
}
FP_INLINE Vf load(const bf16* p, Full = {}) {
  Vh v;
  memcpy(&v, p, sizeof v);
  return from_bf16(v);
}
FP_INLINE Vf load(const float* p, Part t) {
  float v[kLanes] = {};
  for (int i = 0; i < t.n; ++i) v[i] = p[i];
  return load(v);
}
FP_INLINE Vf load(const bf16* p, Part t) {
  bf16 v[kLanes] = {};
  for (int i = 0; i < t.n; ++i) v[i] = p[i];
  return load(v);
}
FP_INLINE void store(float* p, Vf x, Full = {}) { memcpy(p, &x, sizeof x); }
FP_INLINE void store(bf16* p, Vf x, Full = {}) {
  const Vh h = to_bf16(x);
  memcpy(static_cast<void*>(p), &h, sizeof h);
}
FP_INLINE void store(float* p, Vf x, Part t) {
  for (int i = 0; i < t.n; ++i) p[i] = x[i];
}
FP_INLINE void store(bf16* p, Vf x, Part t) {
  bf16 v[kLanes];
  store(v, x);
  for (int i = 0; i < t.n; ++i) p[i] = v[i];
}

// Returns the value rounded to storage type T.
template <class T>
FP_INLINE Vf rounded(Vf x) {
  if constexpr (sizeof(T) == 4) return x;
  return as_float(round_bf16_bits(x) << 16);
}

// Calls f(column, Full or Part) over n columns.
template <class F>
FP_INLINE void columns(int64_t n, F&& f) {
  int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) f(c, Full{});
  if (c < n) f(c, Part{static_cast<int>(n - c)});
}

// Keeps the lanes of a Part and zeroes the others (for sums of values that are not 0 there).
FP_INLINE Vf keep(Vf x, Full) { return x; }
FP_INLINE Vf keep(Vf x, Part t) {
  for (int i = t.n; i < kLanes; ++i) x[i] = 0;
  return x;
}

// Returns the sum of the lanes, always in the same order: halves onto halves.
FP_INLINE float sum(Vf x) {
  float v[kLanes];
  store(v, x);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) v[i] += v[i + half];
  return v[0];
}
FP_INLINE float max_lane(Vf x) {
  float m = x[0];
  for (int i = 1; i < kLanes; ++i) m = x[i] > m ? x[i] : m;
  return m;
}

// zip_lo, zip_hi: a0 b0 a1 b1 ... of the lower and upper halves; evens, odds: the even and odd elements of a|b.
#if FP_LANES == 16
FP_INLINE Vu zip_lo(Vu a, Vu b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
FP_INLINE Vu zip_hi(Vu a, Vu b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
FP_INLINE Vf evens(Vf a, Vf b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
FP_INLINE Vf odds(Vf a, Vf b) {
  return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}
#elif FP_LANES == 8
FP_INLINE Vu zip_lo(Vu a, Vu b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
FP_INLINE Vu zip_hi(Vu a, Vu b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
FP_INLINE Vf evens(Vf a, Vf b) { return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14); }
FP_INLINE Vf odds(Vf a, Vf b) { return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15); }
#else
FP_INLINE Vu zip_lo(Vu a, Vu b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
FP_INLINE Vu zip_hi(Vu a, Vu b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
FP_INLINE Vf evens(Vf a, Vf b) { return __builtin_shufflevector(a, b, 0, 2, 4, 6); }
FP_INLINE Vf odds(Vf a, Vf b) { return __builtin_shufflevector(a, b, 1, 3, 5, 7); }
#endif
FP_INLINE Vf zip_lo(Vf a, Vf b) { return as_float(zip_lo(as_bits(a), as_bits(b))); }
FP_INLINE Vf zip_hi(Vf a, Vf b) { return as_float(zip_hi(as_bits(a), as_bits(b))); }

}  // namespace fp::cpu::FP_ISA
