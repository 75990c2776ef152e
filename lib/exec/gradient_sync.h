// Gradients across ranks: as soon as a unit's gradient is complete its sum over the ranks is under way, while the
// backward pass goes on with the unit before.
//
// Kept whole (ZeRO 0 and 1), gradients add up over the micro-batches and are reduced once a step, to all ranks or to
// each one's shard. Kept as shards (ZeRO 2 and 3) they are reduced for every micro-batch. They are sent in the type
// they are kept in.
#pragma once

#include <memory>
#include <vector>

#include "model/env.h"

namespace fp {

class GradientSync {
 public:
  // `data`: the ranks that hold my weights; `copies`: the tensor-parallel ranks that hold the same copies of kv heads.
  GradientSync(const ModelEnv& env, Group& data, Group& copies) : env_(&env), data_(&data), copies_(&copies) {}

  // Before the micro-batches of a step, and around each.
  void begin_step();
  void begin_micro_batch(bool last) { last_ = last; }
  void end_micro_batch();
  // Around everything that adds to the gradients of a unit in a micro-batch; once each.
  void open(int unit);
  void close(int unit);

 private:
  struct Reduction {
    Request request;
    ArenaTensor memory;     // what is sent, if it was borrowed
    Tensor result, target;  // target += result, in the end; empty: nothing more to do
    bool first = true;
  };
  void sum_over_tensor_ranks(const ParamUnit&, const Tensor& gradients);
  void sum_segments(const std::vector<Segment>&, const Tensor& gradients, int64_t offset, Group&);
  void accumulate(const Tensor& to, const Tensor& from, bool first);
  void reduce_kept(const ParamUnit&);
  void reduce_borrowed(int unit, const ParamUnit&);
  void complete();

  const ModelEnv* env_;
  Group *data_, *copies_;
  bool first_ = true, last_ = true;
  std::vector<ArenaTensor> borrowed_;  // by unit
  std::unique_ptr<Reduction> under_way_;
};

}  // namespace fp
