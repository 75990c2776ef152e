// Numbers of foreign JSON values. nlohmann's conversions between integers wrap, those from floating-point numbers
// round, and their behaviour is undefined for a floating-point number that is out of range.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/shown.h"
#include "io/json.h"

namespace fp {

// Whether a value is written as an integer, without a fraction or an exponent, from `least` to `most`.
template <std::integral Integer, class Json>
bool is_integer(const Json& value, Integer least, Integer most) {
  const auto in_range = [&](auto n) { return std::cmp_greater_equal(n, least) && std::cmp_less_equal(n, most); };
  if (value.is_number_unsigned()) return in_range(value.template get<uint64_t>());
  return value.is_number_integer() && in_range(value.template get<int64_t>());
}

// Returns an integer from `least` to `most`. Throws JsonError for any other value, as "WHAT is 1.5; legal: a whole
// number from 0 to 9".
template <std::integral Integer, class Json>
Integer integer_from(const Json& value, std::string_view what, Integer least = std::numeric_limits<Integer>::min(),
                     Integer most = std::numeric_limits<Integer>::max()) {
  if (!is_integer(value, least, most))
    throw JsonError(fmt::format("{} is {}; legal: a whole number from {} to {}", what,
                                value.is_primitive() ? shown(value.dump()) : value.type_name(), least, most));
  return value.template get<Integer>();
}

// Sets `to` from a value of its type. Throws JsonError or nlohmann's type error for any other value.
template <class T, class Json>
void read_from(const Json& value, std::string_view what, T& to) {
  if constexpr (std::integral<T> && !std::same_as<T, bool>)
    to = integer_from<T>(value, what);
  else
    value.get_to(to);
}

}  // namespace fp
