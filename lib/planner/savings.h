// Savings: the ways to need less memory of the device in return for time or host memory, of which the planner chooses.
#pragma once

#include <vector>

#include "config/cluster/cluster.h"
#include "planner/plan.h"

namespace fp {

class Savings {
 public:
  // Keeps references to the spec, which must be resolved with its vocabulary known, and to the cluster. Throws
  // ConfigError as CostModel does if the share of updates on the device is open.
  Savings(const RunSpec&, int ranks, const ClusterSpec&);

  // Returns a plan with every combination of the savings whose keys are open; others keep the values of `from`. For
  // each place of the state (first all of it on the device; then the optimizer's in host memory, with the share and the
  // subgroup that suit it; then weights and gradients there, too, which needs a pipeline of one rank) these are the
  // savings of activations:
  //   recompute none, selective, full; then, with full, tiles of the MLP, which cost nothing more; then chunks of the
  //   sequence, large ones first; and the same with the inputs of layers in host memory, without chunks first.
  // Host memory is used on GPUs and, where device and host are the same memory, if memory.device_gib is set.
  // No chunk is so small that the copies of keys and values would take longer than attention: one of C tokens takes
  // 4 C^2 H d FLOPs for a visit of C keys in the forward pass, and 10 C^2 H d in the backward pass, for which 4 C K d
  // bytes come in, or 12 C K d (with their gradients in fp32), where H heads share K kv heads; in fp32 compute these
  // are 8 and 16 C K d.
  std::vector<Plan> of(const Plan& from) const;
  // Returns the plan without savings whose keys are open.
  Plan without(Plan) const;

  // Whether host memory may be used.
  bool offloads() const { return offloads_; }

 private:
  bool open(std::string_view key) const;
  std::vector<Plan> of_state(const Plan& from) const;
  std::vector<Plan> of_activations(const Plan& from) const;
  void divide_state(Plan&) const;
  int64_t subgroup(const Plan&) const;
  int64_t least_chunk() const;
  std::vector<int64_t> chunks() const;

  const RunSpec* spec_;
  const ClusterSpec* cluster_;
  bool offloads_;
  double device_share_[2] = {1, 1};  // that is fastest, by the place of the weights; it depends on rates alone
};

// Whether `b` is `a` with savings, a higher ZeRO stage (from 1 on), or without weights kept in nodes, so that it needs
// less memory and is no faster. Weights in host memory are no such saving: a step holds the inputs of layers for all
// its micro-batches then.
bool uses_less_memory(const Plan& b, const Plan& a);

}  // namespace fp
