// The floating-point formats of other programs' weight files, and conversion to and from fp32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace fp {

enum class ElementType : uint8_t { f32, f16, bf16 };

constexpr size_t size_of(ElementType t) { return t == ElementType::f32 ? 4 : 2; }
// The name in safetensors files: F32, F16, BF16.
std::string_view name_of(ElementType);
std::optional<ElementType> element_type(std::string_view safetensors_name);
// The name in config.json's torch_dtype: float32, float16, bfloat16.
std::string_view torch_name_of(ElementType);

// Converts little-endian elements, of any alignment, to fp32, which is exact. `bytes` contains out.size() elements.
void to_floats(ElementType, std::span<const std::byte> bytes, std::span<float> out);
// Rounds to the nearest representable values, ties to even, which is exact when the values came from this format.
// Returns how many finite values became infinite.
size_t from_floats(ElementType, std::span<const float> values, std::span<std::byte> out);

}  // namespace fp
