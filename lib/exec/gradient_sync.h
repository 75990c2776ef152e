// Gradients across ranks: as soon as a unit's gradient is complete its sum over the ranks is under way, while the
// backward pass goes on.
//
// Kept whole (ZeRO 0 and 1), gradients add up over the micro-batches and are reduced once a step, to all ranks or to
// each one's shard. Kept as shards (ZeRO 2 and 3) they are reduced as often as the schedule says. They are sent in the
// type they are kept in.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "exec/bit_flip.h"
#include "exec/reduction_check.h"
#include "model/env.h"

namespace fp {

class GradientSync {
 public:
  // Those of a model. `check`: sums over the data group are proved in end_step's wake, by check().verify().
  GradientSync(const ModelEnv&, const Groups&, bool check = false);

  void begin_step();
  // Before anything is added to the gradients of a unit.
  void open(int unit);
  // All of a unit's gradients since the last time are there; `last`: all of the step.
  void reduce(int unit, bool last);
  // Waits for what is under way.
  void settle();
  // The gradients are those of the step, on every rank that holds them.
  void end_step();
  // Of the next sum over data ranks: what this rank gives, or receives.
  void flip_next(const BitFlip& flip, bool received) { (received ? flip_received_ : flip_given_) = flip; }
  ReductionCheck* check() { return check_ ? &*check_ : nullptr; }

 private:
  struct Reduction {
    Request request;
    ArenaTensor memory;     // what is sent, if it was borrowed
    Tensor result, target;  // target += result, in the end; no target: nothing more to do
    bool first = true, sharded = false;
    int unit = 0;
  };
  void give(int unit, const Tensor& whole);
  void sum_over_tensor_ranks(const ParamUnit&, const Tensor& gradients);
  void sum_segments(const std::vector<Segment>&, const Tensor& gradients, int64_t offset, Group&);
  void accumulate(const Tensor& to, const Tensor& from, bool first);
  void reduce_kept(int unit, const ParamUnit&);
  void reduce_borrowed(int unit, const ParamUnit&, bool last);

  const ModelEnv* env_;
  std::shared_ptr<Group> data_, copies_, ends_;
  std::vector<ArenaTensor> borrowed_;  // by unit
  std::vector<bool> reduced_;          // in this step
  std::unique_ptr<Reduction> under_way_;
  std::optional<ReductionCheck> check_;
  std::optional<BitFlip> flip_given_, flip_received_;
};

}  // namespace fp
