// Whether sums of gradients over ranks are the sums of what the ranks gave: a checksum that is linear, so that the sum
// of the ranks' checksums must be the checksum of the sum, to rounding. The only check of gradients that ZeRO leaves,
// where no two ranks hold the same shard.
#pragma once

#include <vector>

#include "model/env.h"

namespace fp {

class ReductionCheck {
 public:
  // Of the reductions over `data`. Takes 32 bytes of the arena for each unit of parameters; nothing, as all calls do,
  // in a group of one.
  ReductionCheck(const ModelEnv&, Group& data);

  void begin_step();
  // What this rank adds to a sum, all of it, and what came of it: on every rank the same, or its shard.
  void before(int unit, const Tensor& whole);
  void after(int unit, const Tensor& sum, bool sharded);
  // Every rank of the group calls it, after the last reduction of a step. DeviceError naming a parameter whose sum is
  // wrong. A sum of non-finite gradients is not judged.
  void verify();
  // The bits of the checksums of what this rank gave in this step, by unit.
  std::vector<uint32_t> given() const;

 private:
  void add(const Tensor& to, const Tensor& x, bool first);
  Tensor slot(int unit, int which) const { return sums_->slice(4 * unit + 2 * which, 2); }
  std::vector<float> on_host() const;

  const ModelEnv* env_;
  Group* data_;
  ArenaTensor sums_;                    // of each unit: sum and magnitude given, sum and magnitude received
  ArenaTensor addend_;                  // [1,2]
  std::vector<bool> given_, received_;  // by unit, in this step
  bool sharded_ = false;
  double unit_sent_ = 0;  // rounding unit of the type that is sent
};

}  // namespace fp
