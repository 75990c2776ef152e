// Dealing things out to ranks: contiguous shares in rank order, none more than one larger than another. Every cut of a
// tensor, of heads, of tokens and of a sum comes down to it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fp {

struct Share {
  int64_t first = 0, count = 0;
  bool operator==(const Share&) const = default;
};

// Of n things what rank `index` of `ranks` gets: the first n % ranks get one more.
constexpr Share deal(int64_t n, int ranks, int index) {
  const int64_t more = n % ranks;
  return {n / ranks * index + std::min<int64_t>(index, more), n / ranks + (index < more ? 1 : 0)};
}

}  // namespace fp
