// GradientSquares: the sum of squares of a rank's gradients, unit by unit, for their norm.
#pragma once

#include <vector>

#include "model/env.h"

namespace fp {

class GradientSquares {
 public:
  // Takes 4 bytes of the arena for each fragment that this rank owns.
  explicit GradientSquares(const ModelEnv&);

  // Takes this rank's shard of the gradient of a unit, on the device; replaces what it was.
  void add(int unit, const Tensor& shard);
  // Returns the sum over what this rank owns of all units. The host waits for it.
  double sum() const;

 private:
  const ModelEnv* env_;
  std::vector<std::vector<IndexRange>> owned_;  // by unit, within its shard
  std::vector<int64_t> first_;                  // by unit: its first element of `squares_`
  int64_t count_ = 0;
  ArenaTensor squares_;
};

}  // namespace fp
