// CostModel: times of single ops and communications, from the rates of a cluster description.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "comm/comm.h"
#include "comm/nodes.h"
#include "comm/record.h"
#include "config/cluster/cluster.h"
#include "ops/counting.h"

namespace fp {

// Returns the name of a compute type in cluster descriptions.
constexpr std::string_view compute_name(DType t) { return t == DType::bf16 ? "bf16" : "fp32"; }

// Returns the profile for `ranks` ranks per node: of those measured with at least this number, the one with the fewest.
// Null: there is none.
const NodeProfile* profile_for(const ClusterSpec&, int64_t ranks);

// The costs of one rank of a run. The run's ranks fill node after node. Keeps a reference to the cluster.
class CostModel {
 public:
  // Throws ConfigError if the cluster has fewer ranks, or no profile for this number of ranks per node.
  CostModel(const ClusterSpec&, int ranks);

  const ClusterSpec& cluster() const { return *cluster_; }
  const NodeProfile& profile() const { return *profile_; }
  int ranks_per_node() const { return ranks_per_node_; }
  const NodeMap& nodes() const { return nodes_; }

  double op_seconds(const OpWork&) const;
  // Returns the time of a communication in which each of these world ranks sends `sent` bytes. Uneven pieces are those
  // of one rank: others are taken to have the same, and the busiest rank its largest with ranks of other nodes.
  double comm_seconds(CommKind, std::span<const int> ranks, int64_t sent, const UnevenPieces& = {}) const;
  // Returns the time of a copy between a device and its host. Throws ConfigError if the cluster has no rate.
  double copy_seconds(int64_t bytes) const;
  // On CPUs, a rank's copies and host updates run on the cores of its ops, and so take as much time from these.
  bool copies_take_cores() const { return cluster_->device == ClusterDevice::cpu; }
  // Returns the seconds for which a rank waits for a copy of `seconds` while it runs ops of `covered` seconds.
  double exposed_copy_seconds(double seconds, double covered) const {
    return copies_take_cores() ? seconds : std::max(seconds - covered, 0.0);
  }
  // Returns the time of an op that the host's cores run beside a device. Throws ConfigError if the cluster has no rate.
  double host_op_seconds(const OpWork&) const;
  double peak_flops(DType compute) const;  // per rank; 0: unknown

 private:
  const ProductRates& product(const OpWork&) const;
  const OpRates* rates(std::string_view op, DType) const;
  const LinkRates& link(std::string_view between, CommKind) const;

  const ClusterSpec* cluster_;
  const NodeProfile* profile_;
  int ranks_per_node_;
  NodeMap nodes_;
};

}  // namespace fp
