// Counts how often a text occurs in another.
#pragma once

#include <string_view>

namespace fp::test {

// Occurrences of `part`, which must not be empty, in `text`; those that overlap count once.
inline int count_of(std::string_view text, std::string_view part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

}  // namespace fp::test
