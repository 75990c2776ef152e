// IndexRange: consecutive indices, such as elements of a flat buffer, heads or rows.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fp {

struct IndexRange {
  int64_t first = 0, count = 0;

  constexpr int64_t end() const { return first + count; }
  bool operator==(const IndexRange&) const = default;
};

// Returns the intersection of two ranges; count 0: it is empty.
constexpr IndexRange common(const IndexRange& a, const IndexRange& b) {
  const int64_t first = std::max(a.first, b.first);
  return {first, std::max<int64_t>(0, std::min(a.end(), b.end()) - first)};
}

}  // namespace fp
