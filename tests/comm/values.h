// Test data in closed form: element i of rank r holds value<T>(r, i), so the exact result of any communication can be
// computed.
#pragma once

#include <bit>
#include <cstring>

#include "comm/ranks.h"

namespace fp::test {

// 32 pseudo-random bits.
inline uint32_t hash(uint32_t rank, uint64_t i) {
  uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u + (rank + 1) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 31)) * 0x94d049bb133111ebu;
  return static_cast<uint32_t>(x >> 32);
}

// f32: all bits of the mantissa are used, magnitudes from 2^-6 to 4, both signs, so sums depend on their order.
template <class T>
T value(int rank, int64_t i) {
  const uint32_t h = hash(static_cast<uint32_t>(rank), static_cast<uint64_t>(i));
  if constexpr (std::is_same_v<T, int32_t>) return static_cast<int32_t>(h);
  const float x = std::bit_cast<float>((h & 0x807fffffu) | ((121u + (h >> 23) % 8u) << 23));
  return static_cast<T>(x);
}

// Reduces the values of `ranks` in order, in f32, rounded once.
template <class T>
T reduced(const std::vector<int>& ranks, int64_t i, fp::Reduction r) {
  float sum = value<T>(ranks[0], i);
  for (size_t k = 1; k < ranks.size(); ++k) {
    const float v = value<T>(ranks[k], i);
    sum = r == fp::Reduction::sum ? sum + v : std::max(sum, v);
  }
  return static_cast<T>(sum);
}

// Memory of a tensor, with guards around it that must not change.
template <class T>
class Buffer {
 public:
  explicit Buffer(int64_t n) : n_(n), memory_(static_cast<size_t>(n + 2 * kGuard)) {
    std::memset(static_cast<void*>(memory_.data()), 0x5a, memory_.size() * sizeof(T));
  }
  // Filled with the values of this rank from `first` on.
  Buffer(int64_t n, int rank, int64_t first = 0) : Buffer(n) {
    for (int64_t i = 0; i < n; ++i) (*this)[i] = value<T>(rank, first + i);
  }

  T& operator[](int64_t i) { return memory_[static_cast<size_t>(kGuard + i)]; }
  fp::Tensor tensor() { return slice(0, n_); }
  fp::Tensor slice(int64_t first, int64_t count) {
    return {device_address(memory_.data() + kGuard + first), fp::dtype_of<T>::value, {count}};
  }

  // Expects elements [first, first + count) to be expected(0), expected(1), ..., and the guards to be unchanged.
  template <class Expected>
  void expect(Findings& f, const fp::World& world, std::string_view what, int64_t first, int64_t count,
              Expected&& expected) {
    for (int64_t i = 0; i < count; ++i) {
      const T want = expected(i);
      if (std::memcmp(&want, &(*this)[first + i], sizeof(T)) == 0) continue;
      return f.add(fmt::format("{}, {}: rank {} of {}, element {} of {}: {} instead of {}", what,
                               fp::name_of(fp::dtype_of<T>::value), world.rank(), world.size(), i, count,
                               static_cast<double>((*this)[first + i]), static_cast<double>(want)));
    }
    const auto* bytes = reinterpret_cast<const unsigned char*>(memory_.data());
    const size_t guard = kGuard * sizeof(T), all = memory_.size() * sizeof(T);
    for (size_t i = 0; i < guard; ++i)
      if (bytes[i] != 0x5a || bytes[all - 1 - i] != 0x5a) return f.add(fmt::format("{}: written beside it", what));
  }

 private:
  static constexpr int64_t kGuard = 16;
  int64_t n_;
  std::vector<T> memory_;
};

// Sizes around the number of ranks, around a block of the sum, and large enough to be divided over threads.
inline const std::vector<int64_t>& sizes() {
  static const std::vector<int64_t> all{0, 1, 2, 3, 7, 8, 9, 1023, 1025, 20011, 70001};
  return all;
}

inline std::vector<int> all_ranks(const fp::World& world) {
  std::vector<int> ranks;
  for (int r = 0; r < world.size(); ++r) ranks.push_back(r);
  return ranks;
}

}  // namespace fp::test
