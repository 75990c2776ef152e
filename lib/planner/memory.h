// The rank of a run that needs most memory, found without playing all of them.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "planner/estimate.h"
#include "planner/roles.h"

namespace fp {

// Every role is estimated from its states and the schedule's memory bound. The largest are then played exactly, until
// what is left would have to be far off its estimate to need more.
class MemorySearch {
 public:
  static constexpr int kPlays = 12;

  // Of a resolved spec with its vocabulary; `plan` is plan_pipeline()'s. Keeps references. At most `plays` ranks are
  // played for worst().
  MemorySearch(const RunSpec&, const PipelinePlan& plan, const Mesh&, CountingOps&, int plays = kPlays);

  const Roles& roles() const { return roles_; }
  int64_t staging(int role) { return held(role).staging; }  // bytes of host memory
  int64_t estimate(int role);                               // bytes in use at the peak; gaps of the arena come on top
  const Prediction& exact(int role);                        // played when first asked for
  bool played(int role) const { return played_.contains(role); }
  int worst();  // the role that needs most

 private:
  // Of the roles that hold as much of the model, with the same shares.
  struct Held {
    int64_t states = 0, staging = 0;        // bytes
    int64_t layer = 0, stem = 0, head = 0;  // elements of the units
  };
  using Key = std::tuple<int, bool, bool, int64_t>;  // share, stem, head, layers
  const Held& held(int role);
  int64_t activations(int role);
  int64_t borrowed(int role);

  const RunSpec* spec_;
  PipelinePlan plan_;
  Mesh mesh_;
  CountingOps* ops_;
  int plays_;
  Roles roles_;
  Schedule step_;
  std::map<Key, Held> held_;
  std::map<int, std::vector<int64_t>> activations_;  // by share; of each pipeline rank
  std::map<int, Prediction> played_;
};

// Counting ops for ranks of a cluster, wherever this runs. What is taken of a GPU before a run begins is
// in reserved_gib.
std::unique_ptr<CountingOps> counting_ops_for(const ClusterSpec&);

// The memory of the rank that needs most and, on CPUs, of the node that needs most. `ops`: counting_ops_for(), or those
// of a device like the cluster's.
RankMemory worst_rank_memory(const RunSpec&, int ranks, const ClusterSpec&, CountingOps& ops,
                             int plays = MemorySearch::kPlays);

}  // namespace fp
