// The legal plans of a run: what arrange() and plan_pipeline() accept and the spec leaves open.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/cluster.h"
#include "planner/plan.h"

namespace fp {

// Whether ranks can be arranged and micro-batches scheduled so, at every size of a step.
bool is_legal(const RunSpec&, const Plan&, int ranks);

class Candidates {
 public:
  // Of a resolved spec with its vocabulary. What the spec does not leave open stays as it is.
  Candidates(const RunSpec&, int ranks, const ClusterSpec&);

  // Each arrangement with each micro-batch once, with what is fastest of everything else, memory and bubbles aside: no
  // recomputation, Megatron sequence parallelism, ZeRO 1, 1f1b. Tensor parallelism stays within a node or takes whole
  // ones; a pipeline has no fewer micro-batches than ranks, unless they are of one sample. Those whose state alone is
  // over the memory of a device in the thriftiest way are left out, unless `any_size`.
  std::vector<Plan> leads(bool any_size = false) const;

  // With the degrees and micro-batch of a lead: every schedule that it can have, the lead's own first.
  std::vector<Plan> schedules(const Plan& lead) const;

  // Ways to save memory, from the plan itself on; what saves less comes before what saves more.
  std::vector<Plan> thriftier(const Plan&) const;

  // What needs more memory and may be a little faster: without ZeRO, without Megatron sequence parallelism.
  std::vector<Plan> siblings(const Plan&) const;

  // All plans there are.
  std::vector<Plan> all() const;

 private:
  std::vector<Plan> arrangements() const;
  std::vector<int64_t> micro_batches(int64_t data) const;
  std::vector<int64_t> chunks(const Plan&) const;
  bool open(std::string_view key) const;
  bool may_fit(const Plan&) const;

  RunSpec spec_;
  Plan given_;
  int ranks_;
  int64_t node_;         // ranks of a node
  double device_bytes_;  // of a rank
};

// Whether `b` is `a` with more recomputation or a higher ZeRO stage (from 1 on): it needs less memory and is no faster.
bool is_thriftier(const Plan& b, const Plan& a);

}  // namespace fp
