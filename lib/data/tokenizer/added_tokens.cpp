#include "data/tokenizer/added_tokens.h"

#include "base/utf8.h"
#include "data/text/regex.h"

namespace fp {
namespace {

// Unicode's White_Space property.
bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

// \w as defined for Unicode regular expressions (UTS 18).
bool is_word(std::string_view character) {
  static const Regex word(R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}])");
  return !character.empty() && RegexMatcher(word).occurs_in(character);
}

std::string_view first_character(std::string_view text) { return text.substr(0, utf8_character(text)); }

// Returns an empty view when the last bytes are no well-formed character.
std::string_view last_character(std::string_view text) {
  for (size_t n = 1; n <= 4 && n <= text.size(); ++n)
    if (const auto tail = text.substr(text.size() - n); utf8_character(tail) == n) return tail;
  return {};
}

}  // namespace

bool AddedTokenFinder::stands_alone(std::string_view text, size_t begin, size_t end) {
  return !is_word(last_character(text.substr(0, begin))) && !is_word(first_character(text.substr(end)));
}

size_t AddedTokenFinder::white_space_before(std::string_view text) {
  const size_t size = text.size();
  for (;;) {
    const std::string_view c = last_character(text);
    if (c.empty() || !is_white_space(utf8_decode(c))) return size - text.size();
    text.remove_suffix(c.size());
  }
}

size_t AddedTokenFinder::white_space_after(std::string_view text) {
  size_t n = 0;
  for (;;) {
    const std::string_view c = first_character(text.substr(n));
    if (c.empty() || !is_white_space(utf8_decode(c))) return n;
    n += c.size();
  }
}

}  // namespace fp
