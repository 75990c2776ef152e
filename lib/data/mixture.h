// Several datasets mixed by weight, without state: sample g's dataset and its index within that dataset are computed
// from g.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fp {

// The datasets are the leaves of a balanced binary tree. A node that has received c samples has sent round(c * p) of
// them to its left child, p being the left side's share of the node's weight: so the c-th sample goes left exactly when
// that count grows, and its index within the child is the count so far. Walking down takes log2(datasets) steps, and
// the realised number of samples of each dataset is never further than (depth of the tree) / 2 + 1 from its share of g.
class Mixture {
 public:
  struct Item {
    int dataset;
    uint64_t index;  // how many earlier samples came from this dataset
  };

  // Weights are positive and finite; only their ratios matter. ConfigError otherwise.
  explicit Mixture(std::span<const double> weights);
  Item at(uint64_t g) const;

 private:
  struct Node {
    uint64_t left_share;  // p in units of 2^-63
    int left, right;      // child node, or ~dataset for a leaf
  };
  int build(std::span<const double> weights, int begin, int end);

  std::vector<Node> nodes_;
  int root_ = 0;
};

}  // namespace fp
