// Computes the two sums of bit_sums() over one block, a row of kLanes words at a time.
#pragma once

#include "ops/cpu/kernels/simd.h"

namespace fp::cpu::FP_ISA {

// `plain` adds up the words of a lane, and `prefix` all values that `plain` took. After R rows the word of row r occurs
// R - r times in `prefix`, which weights words by their row without a multiplication.
class BitSum {
 public:
  inline __attribute__((always_inline)) void add(Vu row) {
    plain_ += row;
    prefix_ += plain_;
  }
  // Writes the two sums of the block x of n words: `rows` rows were added, the words from rows * kLanes on are added
  // here.
  template <class Word>
  inline __attribute__((always_inline)) void finish(uint32_t* sums, const Word* x, int64_t rows, int64_t n) const {
    uint32_t sum = 0, weighted = 0;
    for (int i = 0; i < kLanes; ++i) {
      const uint32_t by_row = static_cast<uint32_t>(rows) * plain_[i] - prefix_[i];
      sum += plain_[i];
      weighted += 2 * kLanes * by_row + (2 * static_cast<uint32_t>(i) + 1) * plain_[i];
    }
    for (int64_t i = rows * kLanes; i < n; ++i) {
      Word word;
      memcpy(&word, x + i, sizeof word);  // the memory may hold floats
      sum += word;
      weighted += (2 * static_cast<uint32_t>(i) + 1) * word;
    }
    sums[0] = sum;
    sums[1] = weighted;
  }

 private:
  Vu plain_ = splat_bits(0), prefix_ = splat_bits(0);
};

FP_INLINE Vu load_row(const uint32_t* p) {
  Vu v;
  memcpy(&v, p, sizeof v);
  return v;
}
FP_INLINE Vu load_row(const uint16_t* p) {
  Vh v;
  memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, Vu);
}

}  // namespace fp::cpu::FP_ISA
