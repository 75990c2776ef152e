// Tensors of a device as numbers in host memory.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/ops.h"

namespace fp {

// Where an f32 tensor lies, if that is the host's memory; else null.
inline float* in_host_memory(const Ops& ops, const Tensor& t) {
  return t.dtype == DType::f32 && !ops.device_memory() ? t.ptr<float>() : nullptr;
}

// Its numbers where they lie, or copied into `staging`.
inline const float* host_view(Ops& ops, const Tensor& t, std::vector<float>& staging) {
  if (const float* there = in_host_memory(ops, t)) return there;
  staging.resize(static_cast<size_t>(t.elements()));
  ops.copy_out(staging.data(), t);
  return staging.data();
}

// Copies numbers in, rounded to nearest even where the tensor holds bf16.
inline void copy_rounded(Ops& ops, const Tensor& to, const float* values) {
  if (to.dtype == DType::f32) return ops.copy_in(to, values);
  std::vector<bf16> rounded(static_cast<size_t>(to.elements()));
  std::transform(values, values + rounded.size(), rounded.begin(), [](float x) { return bf16(x); });
  ops.copy_in(to, rounded.data());
}

}  // namespace fp
