// Where UTF-8 is well formed (Unicode 15, table 3-7: no surrogates, no overlong forms, nothing above U+10FFFF).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fp {

// Length in bytes (1..4) of the well-formed character that `text` begins with; 0 when there is none.
size_t utf8_character(std::string_view text);
// Length of the longest well-formed prefix.
size_t utf8_valid_prefix(std::string_view text);
// Whether `text` is a non-empty proper prefix of some well-formed character: more bytes could complete it.
bool utf8_incomplete(std::string_view text);
// The code point of a well-formed character.
char32_t utf8_decode(std::string_view character);
void utf8_append(char32_t code_point, std::string& out);

}  // namespace fp
