// A pseudo-random permutation in which each image is computed independently, without a table.
#pragma once

#include <cstdint>

#include "base/philox.h"

namespace fp {

// A permutation of [0, n) for every (key, stream, epoch): a Feistel network with Philox as the round function on the
// next power of two above n, iterated until the result lies in [0, n) (cycle walking; fewer than two iterations on
// average).
class Permutation {
 public:
  // n >= 1, stream < 2^24.
  Permutation(uint64_t n, Philox::Key key, uint32_t stream, uint64_t epoch);
  uint64_t operator()(uint64_t i) const;

 private:
  uint64_t scramble(uint64_t i) const;

  uint64_t n_;
  Philox::Key key_;
  uint32_t stream_;
  uint64_t epoch_;
  int low_bits_, high_bits_;  // the two halves of an index, at least one bit each
};

}  // namespace fp
