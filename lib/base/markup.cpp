#include "base/markup.h"

#include <cstdint>

namespace fp {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Returns the length of the UTF-8 character at the front; 0 if it is invalid or XML does not allow it.
size_t character_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0u; };
  const auto continues = [&](size_t n) {
    for (size_t i = 1; i < n; ++i)
      if ((byte(i) & 0xC0u) != 0x80u) return false;
    return true;
  };
  const uint32_t a = byte(0), b = byte(1);
  if (a < 0x80) return a >= 0x20 && a != 0x7F ? 1 : a == '\n' || a == '\t' ? 1 : 0;
  if (a >= 0xC2 && a <= 0xDF) return continues(2) && !(a == 0xC2 && b < 0xA0) ? 2 : 0;  // U+0080..9F: controls
  if (a >= 0xE0 && a <= 0xEF) {
    const bool overlong = a == 0xE0 && b < 0xA0, surrogate = a == 0xED && b > 0x9F;
    const bool noncharacter = a == 0xEF && b == 0xBF && byte(2) >= 0xBE;
    return continues(3) && !overlong && !surrogate && !noncharacter ? 3 : 0;
  }
  if (a >= 0xF0 && a <= 0xF4) {
    const bool overlong = a == 0xF0 && b < 0x90, beyond = a == 0xF4 && b > 0x8F;
    return continues(4) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  while (!text.empty()) {
    const size_t length = character_length(text);
    switch (length == 1 ? text.front() : '\0') {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += length == 0 ? kReplacement : text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace fp
