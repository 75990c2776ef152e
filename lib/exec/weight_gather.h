// WeightGather: brings weights to the device that are sharded, or in host memory (memory.offload.weights). A unit comes
// before its use, and is freed afterwards: its weights, or this rank's shard, are copied from host memory, and shards
// are gathered from all ranks. ZeRO 1 and 2 with weights on the device gather all updated weights after an optimizer
// step.
//
// Copies and gathers run beside the ops. The gather of a unit needs its copy, and would hold up the ops if it began at
// once; it begins with the second acquire() after the copy was started, or with that of its own unit.
#pragma once

#include <vector>

#include "model/env.h"

namespace fp {

class WeightGather {
 public:
  // `data`: the ranks that hold the shards.
  WeightGather(const ModelEnv& env, Group& data)
      : env_(&env), data_(&data), units_(env.params->table().units().size()) {}
  ~WeightGather();
  WeightGather(const WeightGather&) = delete;
  WeightGather& operator=(const WeightGather&) = delete;

  // Waits for the weights of a unit, which stay until there were as many release() as acquire() and hold(). If `next`
  // is not -1, also starts to bring that unit, which must be acquired later.
  void acquire(int unit, int next = -1);
  void hold(int unit);  // starts to bring the unit, without waiting; counts as a use
  void release(int unit);
  // Completes an update of this rank's shard of the compute weights: gathers those of all ranks, unless that is done
  // before each use.
  void all_gather_updated();

 private:
  struct Unit {
    ArenaTensor memory;
    CopyTicket copy;  // from host memory; the number is 0 if the gather has begun or there is no copy
    int64_t started = 0;
    Request request;
    int uses = 0;
    bool ready = false;
  };
  void start(int unit);
  void begin_gather(Unit&, int unit);

  const ModelEnv* env_;
  Group* data_;
  std::vector<Unit> units_;
  std::vector<int> copying_;  // units with a copy whose gather has not begun, in the order of their start
  int64_t acquired_ = 0;      // number of acquire()
};

}  // namespace fp
