#include "checkpoint/stored_elements.h"

#include <bit>
#include <cstring>

#include "base/error.h"

namespace fp {

static_assert(std::endian::native == std::endian::little, "elements are stored as they are in memory");

const void* to_stored(const float* values, int64_t n, DType t, std::vector<bf16>& scratch) {
  if (t == DType::f32) return values;
  FP_CHECK(t == DType::bf16, "{} cannot be stored", name_of(t));
  scratch.resize(static_cast<size_t>(n));
  uint32_t lost = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<uint32_t>(values[i]);
    scratch[static_cast<size_t>(i)].bits = static_cast<uint16_t>(bits >> 16);
    lost |= bits & 0xffffu;
  }
  FP_CHECK(lost == 0, "a value of a state in bf16 is no bf16 number");
  return scratch.data();
}

std::byte* stored_in(float* values, int64_t n, DType t) {
  return reinterpret_cast<std::byte*>(values + n) - stored_bytes(n, t);
}

void from_stored(float* values, int64_t n, DType t) {
  if (t == DType::f32) return;
  FP_CHECK(t == DType::bf16, "{} cannot be stored", name_of(t));
  const std::byte* stored = stored_in(values, n, t);
  for (int64_t i = 0; i < n; ++i) {  // element i is written below all stored elements that follow
    bf16 narrow;
    std::memcpy(&narrow, stored + i * static_cast<int64_t>(sizeof narrow), sizeof narrow);
    values[i] = narrow;
  }
}

}  // namespace fp
