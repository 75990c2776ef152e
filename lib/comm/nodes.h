// NodeMap: the node of each rank of a world, by which traffic is counted: messages between nodes are the slow ones.
#pragma once

#include <string>
#include <vector>

namespace fp {

class NodeMap {
 public:
  NodeMap() = default;  // all ranks are on one node
  // Ranks with equal host names are on one node; nodes are numbered in the order of their first ranks.
  explicit NodeMap(const std::vector<std::string>& host_of_rank);
  // Rank r is on node r / ranks_per_node.
  NodeMap(int ranks, int ranks_per_node);

  int nodes() const { return nodes_; }
  // Returns the number of ranks of each node, if all have as many and a node's follow one another; else 0.
  int ranks_per_node() const { return ranks_per_node_; }
  int node_of(int rank) const { return node_of_.empty() ? 0 : node_of_[static_cast<size_t>(rank)]; }

 private:
  int equal_nodes() const;  // ranks_per_node()

  std::vector<int> node_of_;  // empty: one node
  int nodes_ = 1, ranks_per_node_ = 0;
};

}  // namespace fp
