// Philox4x32-10 on vectors of counters, with the same bits as base/philox.h, and dropout factors from it.
#pragma once

#include "ops/cpu/kernels.h"
#include "ops/cpu/kernels/simd.h"

namespace fp::cpu::FP_ISA {

struct Product {
  Vu hi, lo;
};
FP_INLINE Product wide_multiply(Vu a, uint32_t b) {
#if defined(__AVX512F__)
  const __m512i x = reinterpret_cast<__m512i>(a), y = _mm512_set1_epi32(static_cast<int>(b));
  const Vu even = reinterpret_cast<Vu>(_mm512_mul_epu32(x, y));
  const Vu odd = reinterpret_cast<Vu>(_mm512_mul_epu32(_mm512_srli_epi64(x, 32), y));
#elif FP_LANES == 8
  const __m256i x = reinterpret_cast<__m256i>(a), y = _mm256_set1_epi32(static_cast<int>(b));
  const Vu even = reinterpret_cast<Vu>(_mm256_mul_epu32(x, y));
  const Vu odd = reinterpret_cast<Vu>(_mm256_mul_epu32(_mm256_srli_epi64(x, 32), y));
#else
  Vu hi;
  for (int i = 0; i < kLanes; ++i) hi[i] = static_cast<uint32_t>((uint64_t{a[i]} * b) >> 32);
  return {hi, a * b};
#endif
#if FP_LANES == 8 || defined(__AVX512F__)
  // 64-bit products of the even and of the odd lanes: put high words with high words and low with low.
  typedef uint64_t Vq __attribute__((vector_size(4 * kLanes)));
  const Vq high = Vq{} + 0xffffffff00000000u;
  const Vq e = reinterpret_cast<Vq>(even), o = reinterpret_cast<Vq>(odd);
  return {reinterpret_cast<Vu>((e >> 32) | (o & high)), reinterpret_cast<Vu>((e & ~high) | (o << 32))};
#endif
}

struct Words {
  Vu w[4];
};
FP_INLINE Words philox(Vu c0, Vu c1, Vu c2, Vu c3, uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const Product p0 = wide_multiply(c0, 0xD2511F53u), p1 = wide_multiply(c2, 0xCD9E8D57u);
    c0 = p1.hi ^ c1 ^ k0;
    c1 = p1.lo;
    c2 = p0.hi ^ c3 ^ k1;
    c3 = p0.lo;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// Returns 0 where dropped, `kept` (1/(1-p)) where kept.
FP_INLINE Vf dropout_factors(Vu bits, float p, float kept) {
  const Vf u = (__builtin_convertvector(reinterpret_cast<Vi>(bits >> 8), Vf) + 0.5f) * 0x1p-24f;
  return u < p ? Vf{} : splat(kept);
}

}  // namespace fp::cpu::FP_ISA
