// Functions of the GPU's special function unit, with CPU versions for the tests.
#pragma once

#include "cuda/device/platform.h"

namespace fp::cuda {

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

// 2^x to 2 ulp (PTX manual, "ex2"); results below 2^-126 are 0.
__device__ __forceinline__ float exp2_approx(float x) {
#ifdef FP_CUDA_HOST
  const float y = std::exp2(x);
  return y < 0x1p-126f ? 0.0f : y;
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

// 1/x to 1 ulp (PTX manual, "rcp").
__device__ __forceinline__ float reciprocal_approx(float x) {
#ifdef FP_CUDA_HOST
  return 1.0f / x;
#else
  float y;
  asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

}  // namespace fp::cuda
