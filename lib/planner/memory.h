// MemorySearch: finds the rank of a run that needs most memory without a dry run of all ranks.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "pipeline/memory.h"
#include "planner/estimate.h"
#include "planner/roles.h"

namespace fp {

// Every role is estimated from its state and the schedule's memory bound. The largest are then dry-run, until the
// others would have to exceed their estimates by far to need more.
class MemorySearch {
 public:
  static constexpr int kDryRuns = 12;

  // The spec must be resolved and its vocabulary known; `plan` is the result of plan_pipeline(). Keeps references to
  // the spec and the ops. worst() makes at most `dry_runs` dry runs.
  MemorySearch(const RunSpec&, const PipelinePlan& plan, const Mesh&, CountingOps&, int dry_runs = kDryRuns);

  const Roles& roles() const { return roles_; }
  // Bytes of host memory: staging area of saves, and what is offloaded.
  int64_t staging(int role) { return held(role).staging; }
  int64_t offloaded(int role);
  // Whether estimate() includes host memory: on CPUs, but for runs with a budget.
  bool counts_host() const;
  int64_t estimate(int role);         // bytes in use at the peak, without gaps of the arena
  const Prediction& exact(int role);  // by a dry run on the first call
  bool known_exactly(int role) const { return exact_.contains(role); }
  int worst();  // the role that needs most; of runs with a budget, most of the device

 private:
  // Memory of the roles with the same share and the same parts of the model.
  struct Held {
    int64_t states = 0, staging = 0;             // bytes
    int64_t offloaded = 0;                       // bytes of states in host memory
    int64_t update = 0, host_update = 0;         // bytes that an update takes, on the device and in host memory
    int64_t layer = 0, embedding = 0, head = 0;  // elements of the units
  };
  using Key = std::tuple<int, bool, bool, int64_t>;  // share, embedding, head, layers
  const Held& held(int role);
  const std::vector<StageBytes>& stages(int role);
  int64_t activations(int role);
  int64_t offloaded_activations(int role);
  int64_t attached(int role);
  int64_t required(const Prediction&) const;

  const RunSpec* spec_;
  PipelinePlan plan_;
  Mesh mesh_;
  CountingOps* ops_;
  int dry_runs_;
  Roles roles_;
  Schedule step_;
  std::map<Key, Held> held_;
  std::map<int, std::vector<StageBytes>> stages_;                            // by share
  std::map<int, std::vector<int64_t>> activations_, offloaded_activations_;  // by share, then by pipeline rank
  std::map<int, Prediction> exact_;
};

// Returns the bytes of a cluster's memory, given in GiB, that a plan may use: without the headroom.
int64_t usable_bytes(const ClusterSpec&, double gib);

// Sets the budgets of a run spec.
void set_budget(RankMemory&, const MemorySection&);

// Returns counting ops for the devices of a cluster, whatever device this host has. Memory of a GPU that is in use
// before a run begins is in reserved_gib. `cpu`: the backend that ranks on CPUs will have, for its scratch memory; must
// outlive the result. Null: scratch is not counted, nor is it on GPUs.
std::unique_ptr<CountingOps> counting_ops_for(const ClusterSpec&, const Ops* cpu = nullptr);

// Returns the memory of the rank that needs most and, on CPUs, of the node that needs most. `ops`: counting_ops_for(),
// or those of a device like the cluster's.
RankMemory worst_rank_memory(const RunSpec&, int ranks, const ClusterSpec&, CountingOps& ops,
                             int dry_runs = MemorySearch::kDryRuns);

}  // namespace fp
