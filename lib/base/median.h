// The middle one of some values.
#pragma once

#include <algorithm>
#include <vector>

namespace fp {

// Of an even number the upper one of the two in the middle; not of none.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace fp
