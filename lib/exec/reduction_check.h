// ReductionCheck: verifies that a sum of gradients over ranks is the sum of the ranks' contributions. It uses a linear
// checksum: the sum of the ranks' checksums must equal the checksum of the sum, up to rounding. Under ZeRO, where no
// two ranks hold the same shard, this is the only possible check of gradients.
#pragma once

#include <span>
#include <vector>

#include "model/env.h"

namespace fp {

class ReductionCheck {
 public:
  // Checks the reductions over `data` and, if not null, over `ends` (of the unit that the first and last pipeline rank
  // share). Takes 16 bytes of the arena for each unit of parameters. In a group of one it takes nothing and all calls
  // do nothing.
  ReductionCheck(const ModelEnv&, Group& data, Group* ends);

  void begin_step();
  // Records this rank's whole contribution to a sum; call before the reduction. A unit may be reduced several times in
  // a step.
  void before(int unit, const Tensor& whole);
  // Verifies the sums of a step. Every rank of the group calls it after the last reduction of the step, with the sum of
  // the elements of each unit's reduced gradient: the same on every rank, or of its shard. Throws DeviceError naming a
  // parameter whose gradient is wrong. Gradients that are not finite are not checked.
  void verify(std::span<const double> received);
  // The same, with a pass over the gradients to sum them, for a step without an update.
  void verify();
  // Returns the bits of the checksums of this rank's contributions in this step, by unit.
  std::vector<uint32_t> checksums() const;

 private:
  std::vector<float> on_host() const;

  const ModelEnv* env_;
  Group* data_;
  Group* ends_;
  ArenaTensor sums_;         // [units,2]: sum and magnitude of this rank's contributions
  ArenaTensor addend_;       // [1,2]
  std::vector<int> counts_;  // by unit: contributions in this step
  double unit_sent_ = 0;     // rounding unit of the type that is sent
};

}  // namespace fp
