// Tensors of a device as numbers in host memory.
#pragma once

#include <vector>

#include "model/param_store.h"

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

}  // namespace fp
