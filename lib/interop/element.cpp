#include "interop/element.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "base/error.h"

namespace fp {
namespace {

constexpr std::array<std::string_view, 3> kElementNames = {"F32", "F16", "BF16"};
constexpr std::array<std::string_view, 3> kTorchNames = {"float32", "float16", "bfloat16"};

// IEEE binary16: 5 exponent bits of bias 15, 10 of mantissa.
float from_half(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 0x3FFu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | mantissa << 13);
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in fp32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t to_half(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7FFFFFFFu;
  if (magnitude >= 0x7F800000u) {  // infinity, or NaN with its upper mantissa bits, at least one of them set
    const uint32_t payload = (u >> 13) & 0x3FFu;
    return static_cast<uint16_t>(sign | 0x7C00u | (magnitude > 0x7F800000u && payload == 0 ? 0x200u : payload));
  }
  if (magnitude < 0x38800000u)  // below 2^-14: a subnormal; adding 0.5 leaves mantissa * 2^-24 rounded to even
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(std::fabs(x) + 0.5f) - 0x3F000000u));
  const uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | (rounded >= 0x47800000u ? 0x7C00u : (rounded - 0x38000000u) >> 13));
}

template <class T, class Convert>
void read_as(std::span<const std::byte> bytes, std::span<float> out, Convert&& convert) {
  for (size_t i = 0; i < out.size(); ++i) {
    T raw;
    std::memcpy(&raw, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = convert(raw);
  }
}

template <class T, class Convert>
size_t write_as(std::span<const float> values, std::span<std::byte> out, T exponent_bits, Convert&& convert) {
  size_t overflowed = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const T raw = convert(values[i]);
    std::memcpy(out.data() + i * sizeof(T), &raw, sizeof(T));
    if ((raw & exponent_bits) == exponent_bits && std::isfinite(values[i])) ++overflowed;
  }
  return overflowed;
}

}  // namespace

std::string_view name_of(ElementType t) { return kElementNames[static_cast<size_t>(t)]; }
std::string_view torch_name_of(ElementType t) { return kTorchNames[static_cast<size_t>(t)]; }

std::optional<ElementType> element_type(std::string_view name) {
  for (size_t i = 0; i < kElementNames.size(); ++i)
    if (kElementNames[i] == name) return static_cast<ElementType>(i);
  return std::nullopt;
}

void to_floats(ElementType type, std::span<const std::byte> bytes, std::span<float> out) {
  FP_CHECK(bytes.size() == out.size() * size_of(type), "{} bytes for {} elements", bytes.size(), out.size());
  switch (type) {
    case ElementType::f32:
      if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
      return;
    case ElementType::f16:
      return read_as<uint16_t>(bytes, out, from_half);
    case ElementType::bf16:
      return read_as<uint16_t>(bytes, out, [](uint16_t raw) { return std::bit_cast<float>(uint32_t{raw} << 16); });
  }
}

size_t from_floats(ElementType type, std::span<const float> values, std::span<std::byte> out) {
  FP_CHECK(out.size() == values.size() * size_of(type), "{} elements into {} bytes", values.size(), out.size());
  switch (type) {
    case ElementType::f32:
      if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
      return 0;
    case ElementType::f16:
      return write_as<uint16_t>(values, out, 0x7C00, to_half);
    case ElementType::bf16:
      return write_as<uint16_t>(values, out, 0x7F80, [](float x) {
        // An exact bf16 keeps its bits, NaN payloads included.
        const uint32_t u = std::bit_cast<uint32_t>(x);
        return (u & 0xFFFFu) == 0 ? static_cast<uint16_t>(u >> 16) : bf16(x).bits;
      });
  }
  throw InternalError("no such element type");
}

}  // namespace fp
