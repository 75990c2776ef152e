#include "base/shown.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/utf8.h"

namespace fp {
namespace {

// Returns true for characters that a terminal acts on or that disguise a text as another one.
bool is_harmful(char32_t c) {
  const bool is_control = c < 0x20 || (c >= 0x7F && c < 0xA0);
  const bool turns_direction =
      c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0x061C;
  const bool breaks_lines = c == 0x2028 || c == 0x2029;
  return is_control || turns_direction || breaks_lines;
}

// Appends the first character of `text`, escaped if necessary, and returns its length in bytes.
size_t append_character(std::string_view text, std::string& out) {
  const size_t length = utf8_character(text);
  if (length == 0) {
    out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    return 1;
  }
  const char32_t c = utf8_decode(text.substr(0, length));
  if (!is_harmful(c))
    out += text.substr(0, length);
  else if (length == 1)
    out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
  else
    out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
  return length;
}

}  // namespace

std::string shown(std::string_view value, size_t longest) {
  std::string s;
  while (!value.empty()) {
    if (s.size() >= longest) return s + "...";
    value.remove_prefix(append_character(value, s));
  }
  return s;
}

std::string printable(std::string_view text) {
  std::string s;
  s.reserve(text.size());
  while (!text.empty()) {
    size_t plain = 0;
    while (plain < text.size() &&
           ((text[plain] >= 0x20 && text[plain] < 0x7F) || text[plain] == '\n' || text[plain] == '\t'))
      ++plain;
    s += text.substr(0, plain);
    text.remove_prefix(plain);
    if (!text.empty()) text.remove_prefix(append_character(text, s));
  }
  return s;
}

std::string for_stdout(std::string text) { return ::isatty(STDOUT_FILENO) == 1 ? printable(text) : std::move(text); }

}  // namespace fp
