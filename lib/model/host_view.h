// Access to the values of device tensors in host memory.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/ops.h"

namespace fp {

// Returns the address of an f32 tensor in host memory; null for other types and memories.
inline float* in_host_memory(const Ops& ops, const Tensor& t) {
  return t.dtype == DType::f32 && !ops.device_memory() ? t.ptr<float>() : nullptr;
}

// Returns the values of an f32 tensor: their address in host memory, or that of `staging`, into which they are copied.
inline const float* host_view(Ops& ops, const Tensor& t, std::vector<float>& staging) {
  if (const float* values = in_host_memory(ops, t)) return values;
  staging.resize(static_cast<size_t>(t.elements()));
  ops.copy_out({staging.data(), t});
  return staging.data();
}

// Copies values to a tensor, rounded to nearest even if it is bf16.
inline void copy_rounded(Ops& ops, const Tensor& to, const float* values) {
  if (to.dtype == DType::f32) return ops.copy_in({to, values});
  std::vector<bf16> rounded(static_cast<size_t>(to.elements()));
  std::transform(values, values + rounded.size(), rounded.begin(), [](float x) { return bf16(x); });
  ops.copy_in({to, rounded.data()});
}

}  // namespace fp
