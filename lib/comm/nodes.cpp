#include "comm/nodes.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"

namespace fp {

NodeMap::NodeMap(const std::vector<std::string>& host_of_rank) {
  std::unordered_map<std::string, int> known;
  for (const std::string& host : host_of_rank)
    node_of_.push_back(known.emplace(host, static_cast<int>(known.size())).first->second);
  nodes_ = std::max(1, static_cast<int>(known.size()));
  ranks_per_node_ = equal_nodes();
}

NodeMap::NodeMap(int ranks, int ranks_per_node) {
  FP_CHECK(ranks >= 1 && ranks_per_node >= 1, "{} ranks on nodes of {}", ranks, ranks_per_node);
  node_of_.reserve(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) node_of_.push_back(r / ranks_per_node);
  nodes_ = node_of_.back() + 1;
  ranks_per_node_ = equal_nodes();
}

int NodeMap::equal_nodes() const {
  const auto ranks = static_cast<int>(node_of_.size());
  if (ranks == 0 || ranks % nodes_ != 0) return 0;
  const int each = ranks / nodes_;
  for (int r = 0; r < ranks; ++r)
    if (node_of(r) != r / each) return 0;
  return each;
}

}  // namespace fp
