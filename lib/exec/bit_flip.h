// Flips a bit of a tensor on purpose, to imitate a fault of memory or of a network.
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/host_view.h"

namespace fp {

struct BitFlip {
  int64_t element = 0;  // taken modulo the number of elements of the tensor
  int bit = 30;         // of an fp32 number; in bf16, which is its upper half, bit - 16 (at least 0)
};

inline void flip_bit(Ops& ops, const Tensor& x, const BitFlip& flip) {
  const Tensor one = x.reshaped({x.elements()}).slice(flip.element % x.elements(), 1);
  const bool narrow = x.dtype == DType::bf16;
  uint32_t word = 0;
  read_tensor(ops, one, &word);
  word ^= uint32_t{1} << (narrow ? std::max(flip.bit - 16, 0) : flip.bit);
  write_tensor(ops, one, &word);
}

}  // namespace fp
