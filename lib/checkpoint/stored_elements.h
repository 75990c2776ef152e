// Elements of tensors as rank files store them: little-endian fp32 or bf16. In host memory they are fp32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"

namespace fp {

inline int64_t stored_bytes(int64_t elements, DType t) { return elements * static_cast<int64_t>(size_of(t)); }

// Returns the stored form of n values: their own memory, or `scratch`. Throws InternalError if one is not exact in it.
const void* to_stored(const float* values, int64_t n, DType, std::vector<bf16>& scratch);

// Returns the address to which n stored elements must be copied for from_stored() to turn them into `values` in place.
std::byte* stored_in(float* values, int64_t n, DType);
void from_stored(float* values, int64_t n, DType);

}  // namespace fp
