// Parses YAML scalars. Plain (unquoted) text is null, true/false, a decimal number or text, and nothing else: no
// yes/no, no hexadecimal or octal, no sexagesimal, so that no value means something other than it seems to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace fp {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

enum class PlainKind { null, boolean, number, nonfinite, text };

// Returns how unquoted text is read. A number has an optional sign, digits (with single _ between them), fraction and
// exponent; forms that parse_integer and parse_real refuse (0x10, 007) are classified as numbers too.
PlainKind classify_plain(std::string_view text);

// The exact integer of a decimal such as 12, -3, 1_000, 1e6 or 2.5e3, or why it is not an integer.
struct IntegerText {
  bool negative = false;
  uint64_t magnitude = 0;
  std::string error;  // empty: a legal integer of at most 64 bits in magnitude
};
IntegerText parse_integer(std::string_view text);

// The double nearest to a decimal, or why there is none.
struct RealText {
  double value = 0;
  std::string error;
};
RealText parse_real(std::string_view text);

}  // namespace fp
