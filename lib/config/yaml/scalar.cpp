#include "config/yaml/scalar.h"

#include <charconv>
#include <cmath>
#include <optional>

namespace fp {

namespace {

// The parts of a decimal: value = digits * 10^exponent.
struct Decimal {
  bool negative = false;
  std::string digits;  // integer and fraction digits, without underscores
  int64_t exponent = 0;
  bool leading_zero = false;  // 007
  std::string canonical;      // without underscores and leading +
};

// Takes digits with single underscores between them and advances `i`.
std::string take_digits(std::string_view s, size_t& i) {
  std::string digits;
  while (i < s.size() && (is_digit(s[i]) || (s[i] == '_' && !digits.empty() && is_digit(s[i - 1]) && i + 1 < s.size() &&
                                             is_digit(s[i + 1])))) {
    if (s[i] != '_') digits += s[i];
    ++i;
  }
  return digits;
}

std::optional<Decimal> take_apart(std::string_view s) {
  constexpr int64_t kHugeExponent = 1'000'000;  // beyond any double; clamped so that sums cannot overflow
  Decimal d;
  size_t i = 0;
  if (i < s.size() && (s[i] == '-' || s[i] == '+')) d.negative = s[i++] == '-';
  const std::string whole = take_digits(s, i);
  std::string fraction;
  if (i < s.size() && s[i] == '.') {
    ++i;
    fraction = take_digits(s, i);
  }
  if (whole.empty() && fraction.empty()) return std::nullopt;
  d.leading_zero = whole.size() > 1 && whole[0] == '0';
  d.digits = whole + fraction;
  d.canonical = (d.negative ? "-" : "") + (whole.empty() ? "0" : whole) + (fraction.empty() ? "" : "." + fraction);
  if (i < s.size() && (s[i] == 'e' || s[i] == 'E')) {
    ++i;
    const bool down = i < s.size() && s[i] == '-';
    if (i < s.size() && (s[i] == '-' || s[i] == '+')) ++i;
    const std::string exponent = take_digits(s, i);
    if (exponent.empty()) return std::nullopt;
    for (const char c : exponent) d.exponent = std::min(kHugeExponent, d.exponent * 10 + (c - '0'));
    if (down) d.exponent = -d.exponent;
    d.canonical += "e" + std::to_string(d.exponent);
  }
  if (i != s.size()) return std::nullopt;
  d.exponent -= static_cast<int64_t>(fraction.size());
  return d;
}

bool looks_like_other_base(std::string_view s) {
  if (!s.empty() && (s[0] == '-' || s[0] == '+')) s.remove_prefix(1);
  return s.size() > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'o' || s[1] == 'b') &&
         s.substr(2).find_first_not_of("0123456789abcdefABCDEF_") == std::string_view::npos;
}

bool one_of(std::string_view s, std::initializer_list<std::string_view> list) {
  for (const auto x : list)
    if (s == x) return true;
  return false;
}

bool is_nonfinite(std::string_view s) {
  if (!s.empty() && (s[0] == '-' || s[0] == '+')) s.remove_prefix(1);
  return one_of(s, {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN", "inf", "Inf", "INF", "nan", "NaN", "NAN"});
}

// Returns why `s` is not a decimal, or that its form is ambiguous; empty if it is fine.
std::string form_error(std::string_view s, const std::optional<Decimal>& d) {
  if (is_nonfinite(s)) return "must be finite";
  if (looks_like_other_base(s)) return "must be written in decimal";
  if (!d) return "is not a number";
  if (d->leading_zero) return "must be written without leading zeros (octal or decimal?)";
  return "";
}

}  // namespace

PlainKind classify_plain(std::string_view s) {
  if (one_of(s, {"", "~", "null", "Null", "NULL"})) return PlainKind::null;
  if (one_of(s, {"true", "True", "TRUE", "false", "False", "FALSE"})) return PlainKind::boolean;
  if (is_nonfinite(s)) return PlainKind::nonfinite;
  if (take_apart(s) || looks_like_other_base(s)) return PlainKind::number;
  return PlainKind::text;
}

IntegerText parse_integer(std::string_view text) {
  IntegerText result;
  const auto decimal = take_apart(text);
  result.error = form_error(text, decimal);
  if (!result.error.empty()) return result;
  result.negative = decimal->negative;
  std::string digits = decimal->digits;
  int64_t exponent = decimal->exponent;
  digits.erase(0, digits.find_first_not_of('0'));
  if (digits.empty()) {
    result.negative = false;
    return result;
  }
  while (exponent < 0 && digits.back() == '0') {
    digits.pop_back();
    ++exponent;
  }
  if (exponent < 0) {
    result.error = "is not a whole number";
    return result;
  }
  constexpr size_t kMostDigits = 20;  // digits of 2^64
  if (digits.size() + static_cast<size_t>(exponent) <= kMostDigits)
    digits.append(static_cast<size_t>(exponent), '0');
  else
    digits.assign(kMostDigits + 1, '9');
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), result.magnitude);
  if (error != std::errc() || end != digits.data() + digits.size()) result.error = "does not fit in 64 bits";
  return result;
}

RealText parse_real(std::string_view text) {
  RealText result;
  const auto decimal = take_apart(text);
  result.error = form_error(text, decimal);
  if (!result.error.empty()) return result;
  const std::string& s = decimal->canonical;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), result.value);
  // from_chars reports overflow and underflow with the same error; the exponent tells them apart.
  if (error == std::errc::result_out_of_range)
    result.error = decimal->exponent < 0 ? "is too small for a double" : "is too large for a double";
  else if (error != std::errc() || end != s.data() + s.size() || !std::isfinite(result.value))
    result.error = "is not a number";
  return result;
}

}  // namespace fp
