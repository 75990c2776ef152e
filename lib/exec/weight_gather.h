// WeightGather: all-gathers sharded weights. ZeRO 3 prefetches a unit before its use and frees it afterwards; ZeRO 1
// and 2 gather all updated weights after an optimizer step.
#pragma once

#include <vector>

#include "model/env.h"

namespace fp {

class WeightGather {
 public:
  // `data`: the ranks that hold the shards.
  WeightGather(const ModelEnv& env, Group& data)
      : env_(&env), data_(&data), units_(env.params->table().units().size()) {}

  // Waits for the weights of a unit, which stay until there were as many release() as acquire() and hold(). If `next`
  // is not -1, also starts to gather that unit, which must be acquired later.
  void acquire(int unit, int next = -1);
  void hold(int unit);  // starts the gather, without waiting; counts as a use
  void release(int unit);
  // Gathers the weights of all ranks after this rank's shard of the compute weights has changed.
  void all_gather_updated();

 private:
  struct Unit {
    ArenaTensor memory;
    Request request;
    int uses = 0;
    bool gathered = false;
  };
  void start(int unit);

  const ModelEnv* env_;
  Group* data_;
  std::vector<Unit> units_;
};

}  // namespace fp
