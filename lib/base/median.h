// The median of a list.
#pragma once

#include <algorithm>
#include <vector>

namespace fp {

// Returns the median of a non-empty list; for an even size, the upper of the two middle values.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace fp
