#include "base/utf8.h"

#include <cstring>

namespace fp {
namespace {

struct Lead {
  size_t length;  // 0: no character begins with this byte
  uint8_t second_min, second_max;
};

Lead lead_of(uint8_t b) {
  if (b < 0x80) return {1, 0, 0};
  if (b < 0xC2) return {0, 0, 0};
  if (b < 0xE0) return {2, 0x80, 0xBF};
  if (b < 0xF0)
    return {3, static_cast<uint8_t>(b == 0xE0 ? 0xA0 : 0x80), static_cast<uint8_t>(b == 0xED ? 0x9F : 0xBF)};
  if (b < 0xF5)
    return {4, static_cast<uint8_t>(b == 0xF0 ? 0x90 : 0x80), static_cast<uint8_t>(b == 0xF4 ? 0x8F : 0xBF)};
  return {0, 0, 0};
}

// Returns how many leading bytes of `text` are valid for the character that its first byte begins.
size_t fitting_bytes(std::string_view text, const Lead& lead) {
  size_t i = 1;
  for (; i < lead.length && i < text.size(); ++i) {
    const auto b = static_cast<uint8_t>(text[i]);
    const uint8_t low = i == 1 ? lead.second_min : 0x80, high = i == 1 ? lead.second_max : 0xBF;
    if (b < low || b > high) break;
  }
  return i;
}

}  // namespace

size_t utf8_character(std::string_view text) {
  if (text.empty()) return 0;
  const Lead lead = lead_of(static_cast<uint8_t>(text[0]));
  return lead.length > 0 && fitting_bytes(text, lead) == lead.length ? lead.length : 0;
}

size_t utf8_valid_prefix(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    uint64_t word = 0;
    while (i + sizeof(word) <= text.size()) {
      std::memcpy(&word, text.data() + i, sizeof(word));
      if (word & 0x8080808080808080u) break;
      i += sizeof(word);
    }
    if (i == text.size()) break;
    const size_t length = utf8_character(text.substr(i));
    if (length == 0) break;
    i += length;
  }
  return i;
}

bool utf8_incomplete(std::string_view text) {
  if (text.empty()) return false;
  const Lead lead = lead_of(static_cast<uint8_t>(text[0]));
  return text.size() < lead.length && fitting_bytes(text, lead) == text.size();
}

char32_t utf8_decode(std::string_view c) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(c[i])); };
  switch (c.size()) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3:
      return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    default:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  }
}

void utf8_append(char32_t c, std::string& out) {
  const auto put = [&](char32_t b) { out += static_cast<char>(static_cast<uint8_t>(b)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  }
}

}  // namespace fp
