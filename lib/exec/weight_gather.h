// Weights that this rank does not keep: ZeRO 3 gathers a unit before its use, ahead of time, and drops it afterwards;
// ZeRO 1 and 2 gather all of them after an update.
#pragma once

#include <vector>

#include "model/env.h"

namespace fp {

class WeightGather {
 public:
  // `data`: the ranks that hold the shards.
  WeightGather(const ModelEnv& env, Group& data)
      : env_(&env), data_(&data), units_(env.params->table().units().size()) {}

  // The weights of a unit are there until as many release() as acquire() and hold(). `next`, if not -1, is on its way
  // meanwhile and must be acquired later.
  void acquire(int unit, int next = -1);
  void hold(int unit);  // they are on their way, and stay
  void release(int unit);
  // After this rank's shard of the compute weights has changed.
  void share();

 private:
  struct Unit {
    ArenaTensor memory;
    Request request;
    int uses = 0;
    bool there = false;
  };
  void start(int unit);

  const ModelEnv* env_;
  Group* data_;
  std::vector<Unit> units_;
};

}  // namespace fp
