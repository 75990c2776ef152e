// What a cluster's figures say about single ops and communications.
#pragma once

#include <span>
#include <string_view>

#include "comm/record.h"
#include "config/cluster.h"
#include "ops/counting.h"

namespace fp {

// The compute type's name in cluster descriptions.
constexpr std::string_view spelled(DType t) { return t == DType::bf16 ? "bf16" : "fp32"; }

// Of one rank of a run with so many, which fill node after node. Keeps a reference to the cluster.
class CostModel {
 public:
  // ConfigError when the cluster has not as many ranks or says nothing about so many on a node.
  CostModel(const ClusterSpec&, int ranks);

  const ClusterSpec& cluster() const { return *cluster_; }
  const NodeProfile& profile() const { return *profile_; }
  int ranks_per_node() const { return ranks_per_node_; }
  int node_of(int rank) const { return rank / ranks_per_node_; }

  double op_seconds(const OpWork&) const;
  // Each of these world ranks sends so many bytes.
  double comm_seconds(CommKind, std::span<const int> ranks, int64_t sent) const;
  double peak_flops(DType compute) const;  // of a rank

 private:
  const ProductRates& product(const OpWork&) const;
  const OpRates* rates(std::string_view op, DType) const;
  const LinkRates& link(std::string_view between, CommKind) const;

  const ClusterSpec* cluster_;
  const NodeProfile* profile_;
  int ranks_per_node_;
};

}  // namespace fp
