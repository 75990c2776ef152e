#include "data/tokenizer/base64.h"

#include <array>
#include <cstdint>

namespace fp {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::array<int, 256> digit_values() {
  std::array<int, 256> values;
  values.fill(-1);
  for (size_t i = 0; i < kDigits.size(); ++i) values[static_cast<uint8_t>(kDigits[i])] = static_cast<int>(i);
  return values;
}

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) text += i + k <= bytes.size() ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::optional<std::string> base64_decode(std::string_view text) {
  static const std::array<int, 256> values = digit_values();
  if (text.size() % 4 != 0) return std::nullopt;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t group = 0;
    const size_t digits = i + 4 == text.size() ? 4 - padding : 4;
    for (size_t k = 0; k < 4; ++k) {
      const int value = k < digits ? values[static_cast<uint8_t>(text[i + k])] : 0;
      if (value < 0) return std::nullopt;
      group = group << 6 | static_cast<uint32_t>(value);
    }
    for (size_t k = 0; k + 1 < 4; ++k) {
      const auto byte = static_cast<uint8_t>(group >> (16 - 8 * k));
      if (k + 1 < digits)
        bytes += static_cast<char>(byte);
      else if (byte != 0)
        return std::nullopt;  // unused bits must be zero
    }
  }
  return bytes;
}

}  // namespace fp
