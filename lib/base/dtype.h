// Element types. bf16 is the upper half of an IEEE binary32, rounded to nearest even.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fp {

enum class DType : uint8_t { f32, bf16, i32, u8 };

constexpr size_t size_of(DType t) {
  switch (t) {
    case DType::f32:
      return 4;
    case DType::bf16:
      return 2;
    case DType::i32:
      return 4;
    case DType::u8:
      return 1;
  }
  return 0;
}

constexpr std::string_view name_of(DType t) {
  switch (t) {
    case DType::f32:
      return "fp32";
    case DType::bf16:
      return "bf16";
    case DType::i32:
      return "i32";
    case DType::u8:
      return "u8";
  }
  return "?";
}

struct bf16 {
  uint16_t bits = 0;

  bf16() = default;
  constexpr explicit bf16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    // NaN must stay NaN: set a mantissa bit instead of rounding into infinity.
    bits = (u & 0x7fffffffu) > 0x7f800000u ? static_cast<uint16_t>((u >> 16) | 0x40u)
                                           : static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  constexpr operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};
static_assert(sizeof(bf16) == 2);

template <class T>
struct dtype_of;
template <>
struct dtype_of<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct dtype_of<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct dtype_of<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct dtype_of<uint8_t> {
  static constexpr DType value = DType::u8;
};

// Relative distance between neighbouring values near 1 (machine epsilon), from which tolerances are derived; 0 for
// integers.
constexpr double epsilon_of(DType t) { return t == DType::bf16 ? 0x1p-7 : t == DType::f32 ? 0x1p-23 : 0.0; }

}  // namespace fp
