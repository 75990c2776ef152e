// Access of the host to the values of tensors, wherever they lie. Those in host memory must not be in use by a copy.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/ops.h"

namespace fp {

// Returns the address of an f32 tensor in host memory; null for other types and memories.
inline float* in_host_memory(const Ops& ops, const Tensor& t) {
  return t.dtype == DType::f32 && (t.residence == Residence::host || !ops.device_memory()) ? t.ptr<float>() : nullptr;
}

// Copies a tensor of any type to `to`.
inline void read_tensor(Ops& ops, const Tensor& t, void* to) {
  if (t.residence == Residence::device) return ops.copy_out({to, t});
  ops.synchronize();  // the copy that wrote it may have been ordered, but not have ended
  if (!ops.dry()) std::memcpy(to, t.data, t.bytes());
}

inline void write_tensor(Ops& ops, const Tensor& t, const void* from) {
  if (t.residence == Residence::device) return ops.copy_in({t, from});
  if (!ops.dry()) std::memcpy(t.data, from, t.bytes());
}

inline void zero_tensor(Ops& ops, const Tensor& t) {
  if (t.residence == Residence::device) return ops.zero({t});
  if (!ops.dry()) std::memset(t.data, 0, t.bytes());
}

// Copies the values of a tensor to `to`, as f32.
inline void read_floats(Ops& ops, const Tensor& t, float* to) {
  if (t.dtype == DType::f32) return read_tensor(ops, t, to);
  std::vector<bf16> narrow(static_cast<size_t>(t.elements()));
  read_tensor(ops, t, narrow.data());
  std::copy(narrow.begin(), narrow.end(), to);
}

// Returns the values of a tensor as f32: their address in host memory, or that of `staging`, into which they are
// copied.
inline const float* host_view(Ops& ops, const Tensor& t, std::vector<float>& staging) {
  if (const float* values = in_host_memory(ops, t)) {
    if (t.residence == Residence::host) ops.synchronize();
    return values;
  }
  staging.resize(static_cast<size_t>(t.elements()));
  read_floats(ops, t, staging.data());
  return staging.data();
}

// Copies values to a tensor, rounded to nearest even if it is bf16.
inline void copy_rounded(Ops& ops, const Tensor& to, const float* values) {
  if (to.dtype == DType::f32) return write_tensor(ops, to, values);
  std::vector<bf16> rounded(static_cast<size_t>(to.elements()));
  std::transform(values, values + rounded.size(), rounded.begin(), [](float x) { return bf16(x); });
  write_tensor(ops, to, rounded.data());
}

}  // namespace fp
