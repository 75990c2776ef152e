// WeightGather: brings weights that are sharded or in host memory (memory.offload.weights) to the device. A unit is
// fetched before its use and freed afterwards: its weights, or this rank's shard, are copied from host memory, and
// shards are gathered from all ranks. ZeRO 1 and 2 with weights on the device gather all updated weights after an
// optimizer step; these may arrive during the next forward pass, each unit before its use.
//
// The ranks of a node may keep the weights that they have gathered, a part each, until the weights change (hpZ of
// ZeRO++, Wang et al. 2023, arXiv:2306.10209): the first gather of a unit after an update is from all ranks, later ones
// are from the ranks of the node.
//
// Where differences are sent (exec/shard_exchange.h), an update does not change the weights. add_differences() then
// adds the differences between the updated parameters and the weights: to all weights under ZeRO 1 and 2, to the
// weights that each node keeps under ZeRO 3.
//
// Copies and gathers run beside the ops. The gather of a unit needs its copy, and would hold up the ops if it began at
// once; it begins with the second acquire() after the copy was started, or with that of its own unit.
#pragma once

#include <vector>

#include "exec/shard_exchange.h"

namespace fp {

class WeightGather {
 public:
  // `data`: the ranks that hold the shards. `in_node`: the ranks of `data` on this node. `across_nodes`: the ranks of
  // `data` with this rank's place on each node. Both are null with one node, or where the formats do not need them.
  WeightGather(const ModelEnv& env, Group& data, Group* in_node = nullptr, Group* across_nodes = nullptr);
  // The same with the groups of a model, as its formats ask for it.
  WeightGather(const ModelEnv& env, const Groups&);
  ~WeightGather();
  WeightGather(const WeightGather&) = delete;
  WeightGather& operator=(const WeightGather&) = delete;

  // Waits for the weights of a unit, which stay until release() was called once for each acquire() and hold(). If
  // `next` is not -1, also starts to bring that unit, which must be acquired later.
  void acquire(int unit, int next = -1);
  void hold(int unit);  // starts to bring the unit, without waiting; counts as a use
  void release(int unit);
  // Completes a load of this rank's shard of the compute weights, or an update of it: gathers those of all ranks,
  // unless that is done before each use.
  void all_gather();
  // Starts all_gather() if it needs no memory of its own, else runs it to the end. acquire() waits for the unit and
  // those before it.
  void start_all_gather();
  // Waits for all weights. Call before any are read that were not acquired.
  void settle();
  // Whether updates leave the weights as they are, to be changed by add_differences().
  bool sends_differences() const;
  // Adds the differences of an update to the weights. Call after the update, if sends_differences().
  void add_differences();

 private:
  struct Unit {
    ArenaTensor memory;
    CopyTicket copy;  // from host memory; the number is 0 if the gather has begun or there is no copy
    int64_t started = 0;
    ShardExchange::Pending gather;
    int uses = 0;
    bool ready = false;
    ArenaTensor kept;      // this rank's part of what the node keeps
    bool is_kept = false;  // whether `kept` has the current weights
  };
  void start(int unit);
  void begin_gather(Unit&, int unit);
  // Waits for the gathers of start_all_gather() of the first `units` units.
  void arrive(size_t units);

  const ModelEnv* env_;
  Group *data_, *in_node_;
  ShardExchange shards_;
  std::vector<Unit> units_;
  std::vector<ShardExchange::Pending> arriving_;  // of start_all_gather(), by unit
  size_t arrived_ = 0;                            // number of units, from the first on, that have arrived
  std::vector<int> copying_;  // units with a copy whose gather has not begun, in the order of their start
  int64_t acquired_ = 0;      // number of acquire()
};

}  // namespace fp
