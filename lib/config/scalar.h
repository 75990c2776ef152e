// Scalars of the run spec's YAML. Plain (unquoted) text is null, true/false, a decimal number or text; nothing else (no
// yes/no, no hexadecimal or octal, no sexagesimal), so that what a person reads is what the program reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace fp {

enum class PlainKind { null, boolean, number, nonfinite, text };

// What unquoted text would be read as. "number": optional sign, digits (with single _ between them), fraction,
// exponent; also such digits in forms that are refused (0x10, 007).
PlainKind classify_plain(std::string_view text);

// The exact integer that a decimal such as 12, -3, 1_000, 1e6 or 2.5e3 stands for, or why it is none.
struct IntegerText {
  bool negative = false;
  uint64_t magnitude = 0;
  std::string error;  // empty: a legal integer of at most 64 bits in magnitude
};
IntegerText parse_integer(std::string_view text);

// The double nearest to a decimal, or why it is none.
struct RealText {
  double value = 0;
  std::string error;
};
RealText parse_real(std::string_view text);

}  // namespace fp
