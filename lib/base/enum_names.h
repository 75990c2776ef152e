// Names of enumerators. An enum has names if a function names_of(E), declared beside it, returns them in the order of
// its enumerators, which count from 0; then fmt prints them, too.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace fp {

using EnumNames = std::span<const std::string_view>;

template <class E>
concept NamedEnum = std::is_enum_v<E> && requires {
  { names_of(E{}) } -> std::same_as<EnumNames>;
};

template <NamedEnum E>
std::string_view name_of(E value) {
  return names_of(value)[static_cast<size_t>(value)];
}

// Returns the enumerator with this name; nothing if none has it.
template <NamedEnum E>
std::optional<E> named(std::string_view name) {
  const EnumNames names = names_of(E{});
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<E>(i);
  return std::nullopt;
}

}  // namespace fp

template <fp::NamedEnum E>
struct fmt::formatter<E> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(E value, Context& context) const {
    return fmt::formatter<std::string_view>::format(fp::name_of(value), context);
  }
};
