#include "data/sampling/permutation.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"

namespace fp {
namespace {

constexpr uint32_t kRounds = 8;  // even, so that the halves have their original widths at the end

}  // namespace

Permutation::Permutation(uint64_t n, Philox::Key key, uint32_t stream, uint64_t epoch)
    : n_(n), key_(key), stream_(stream), epoch_(epoch) {
  FP_CHECK(n >= 1 && stream < (1u << 24), "a permutation of {} things, stream {}", n, stream);
  const int bits = std::max(2, static_cast<int>(std::bit_width(n - 1)));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
}

uint64_t Permutation::operator()(uint64_t i) const {
  FP_CHECK(i < n_, "index {} of {}", i, n_);
  do i = scramble(i);
  while (i >= n_);
  return i;
}

uint64_t Permutation::scramble(uint64_t i) const {
  int low_bits = low_bits_, high_bits = high_bits_;
  uint64_t low = i & ((uint64_t{1} << low_bits) - 1), high = i >> low_bits;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const Philox::Counter counter{static_cast<uint32_t>(low), round << 24 | stream_, static_cast<uint32_t>(epoch_),
                                  static_cast<uint32_t>(epoch_ >> 32)};
    high ^= Philox::block(counter, key_)[0] & ((uint64_t{1} << high_bits) - 1);
    std::swap(low, high);
    std::swap(low_bits, high_bits);
  }
  return high << low_bits | low;
}

}  // namespace fp
