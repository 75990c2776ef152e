// exp, exp2 and the logistic function of vectors, to about 1 unit in the last place of fp32. NaN in, NaN out.
#pragma once

#include "ops/cpu/kernels/simd.h"

namespace fp::cpu::FP_ISA {

// Rounds to the nearest integer, for |x| < 2^22, by the rounding of an addition.
FP_INLINE Vf nearest(Vf x) {
  const Vf magic = splat(0x1.8p23f);
  return (x + magic) - magic;
}

// Returns p * 2^n for integral n in [-126, 128] and p in [0.7, 1.5].
FP_INLINE Vf scale_by_power(Vf p, Vf n) {
  return as_float(as_bits(p) + (reinterpret_cast<Vu>(__builtin_convertvector(n, Vi)) << 23));
}

// Returns e^x; results below 2^-125 are flushed to 0.
FP_INLINE Vf exp(Vf x) {
  const Vf lowest = splat(-86.6f), highest = splat(88.72f);
  const Vf clamped = x < lowest ? lowest : (x > highest ? highest : x);
  const Vf n = nearest(clamped * 0x1.715476p0f);
  const Vf r = (clamped - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  Vf p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const Vf y = scale_by_power(p, n);
  return x < lowest ? Vf{} : (x > highest ? splat(__builtin_inff()) : y);
}

// Returns 2^x for x <= 1, as the probabilities of attention need it; 0 for x below -125.
FP_INLINE Vf exp2_small(Vf x) {
  const Vf lowest = splat(-125.0f);
  const Vf clamped = x < lowest ? lowest : x;
  const Vf n = nearest(clamped);
  const Vf r = clamped - n;
  Vf p = r * 1.5352714e-4f + 1.3398874e-3f;
  p = p * r + 9.6184373e-3f;
  p = p * r + 5.5503323e-2f;
  p = p * r + 2.4022648e-1f;
  p = p * r + 6.9314720e-1f;
  p = p * r + 1.0f;
#if defined(__AVX512F__)
  const Vf y = reinterpret_cast<Vf>(_mm512_scalef_ps(reinterpret_cast<__m512>(p), reinterpret_cast<__m512>(n)));
#else
  const Vf y = scale_by_power(p, n);
#endif
  return x < lowest ? Vf{} : y;
}

FP_INLINE Vf logistic(Vf x) { return 1.0f / (1.0f + exp(-x)); }

}  // namespace fp::cpu::FP_ISA
