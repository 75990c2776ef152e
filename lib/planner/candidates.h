// Candidates: the legal plans of a run, which arrange() and plan_pipeline() accept, over the keys that the spec leaves
// open.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/cluster/cluster.h"
#include "planner/plan.h"
#include "planner/savings.h"

namespace fp {

// Whether the plan's ranks can be arranged and its micro-batches scheduled, at every batch size of the run.
bool is_legal(const RunSpec&, const Plan&, int ranks);

class Candidates {
 public:
  // The spec must be resolved and its vocabulary known. Keys that it does not leave open keep their values.
  Candidates(const RunSpec&, int ranks, const ClusterSpec&);
  Candidates(const Candidates&) = delete;
  Candidates& operator=(const Candidates&) = delete;

  // Returns each arrangement with each micro-batch size once, with the fastest choice of everything else when memory
  // and bubbles do not count: no recomputation, Megatron sequence parallelism, ZeRO 1, 1f1b; and, with a limit of the
  // error of gradients, once more with quantized ones. Tensor parallelism stays within a node or spans whole nodes. A
  // pipeline has no fewer micro-batches than ranks, unless they are of one sample. Unless `any_size`, leaves out plans
  // whose state and least activations exceed the memory of a device even with every saving.
  std::vector<Plan> leads(bool any_size = false) const;

  // Returns the lead with every schedule that is legal for it, its own schedule first.
  std::vector<Plan> schedules(const Plan& lead) const;

  // Returns the plan and its variants with savings (planner/savings.h) or a higher ZeRO stage; smaller ones come first.
  std::vector<Plan> with_less_memory(const Plan&) const;

  // Returns variants that need more memory and may be slightly faster: without ZeRO, without Megatron sequence
  // parallelism.
  std::vector<Plan> with_more_memory(const Plan&) const;

  // Returns all candidates.
  std::vector<Plan> all() const;

 private:
  std::vector<Plan> arrangements() const;
  std::vector<int64_t> micro_batches(int64_t data) const;
  int64_t least_zero_stage(Plan) const;
  std::vector<int64_t> gradient_bits(const Plan&) const;
  std::vector<int64_t> chunks(const Plan&) const;
  bool open(std::string_view key) const;
  bool may_be_offloaded(std::string_view key, Offload written) const {
    return open(key) ? savings_.offloads() : written == Offload::host;
  }
  bool may_fit(const Plan&) const;
  bool sums_through_nodes(const Plan&) const;  // several ranks of each of several nodes share parameters

  RunSpec spec_;
  Plan given_;
  int ranks_;
  Savings savings_;
  int64_t node_;         // ranks per node
  int64_t fewest_bits_;  // of gradients whose usual error is within the limit; 0: none
  double device_bytes_;  // memory per rank
};

}  // namespace fp
