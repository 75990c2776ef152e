// UTF-8 decoding and validation (Unicode 15, table 3-7: no surrogates, no overlong forms, nothing above U+10FFFF).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fp {

// Returns the length in bytes (1..4) of the well-formed character at the start of `text`; 0 when there is none.
size_t utf8_character(std::string_view text);
// Returns the length in bytes of the longest well-formed prefix.
size_t utf8_valid_prefix(std::string_view text);
// Returns whether `text` is a non-empty proper prefix of some well-formed character, which more bytes could complete.
bool utf8_incomplete(std::string_view text);
// Returns the code point of a well-formed character.
char32_t utf8_decode(std::string_view character);
void utf8_append(char32_t code_point, std::string& out);

// Calls valid(stretch) for each longest well-formed stretch of `text` and broken(stretch) for each between two of them,
// from left to right. No stretch is empty.
template <class Valid, class Broken>
void utf8_stretches(std::string_view text, Valid&& valid, Broken&& broken) {
  while (!text.empty()) {
    const size_t well_formed = utf8_valid_prefix(text);
    if (well_formed > 0) valid(text.substr(0, well_formed));
    text.remove_prefix(well_formed);
    size_t ill_formed = 0;
    while (ill_formed < text.size() && utf8_character(text.substr(ill_formed)) == 0) ++ill_formed;
    if (ill_formed > 0) broken(text.substr(0, ill_formed));
    text.remove_prefix(ill_formed);
  }
}

}  // namespace fp
