// Mixes datasets by weight without state: the dataset of sample g, and the index of the sample within that dataset, are
// functions of g.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fp {

// The datasets are the leaves of a balanced binary tree. A node that has received c samples has passed round(c * p) of
// them to its left child, where p is the left child's fraction of the node's weight. So the c-th sample goes left
// exactly when that count grows, and its index within the child is the count so far. A lookup takes log2(datasets)
// steps, and the number of samples of a dataset differs from its fraction of g by at most (depth of the tree) / 2 + 1.
class Mixture {
 public:
  struct Item {
    int dataset;
    uint64_t index;  // number of earlier samples from this dataset
  };

  // Weights must be positive and finite; only their ratios matter. Throws ConfigError otherwise.
  explicit Mixture(std::span<const double> weights);
  Item at(uint64_t g) const;
  // Returns how many of the first `samples` samples come from each dataset.
  std::vector<uint64_t> counts(uint64_t samples) const;

 private:
  struct Node {
    uint64_t left_share;  // p in units of 2^-63
    int left, right;      // child node, or ~dataset for a leaf
  };
  int build(std::span<const double> weights, int begin, int end);

  void count(int node, uint64_t samples, std::vector<uint64_t>& counts) const;

  std::vector<Node> nodes_;
  int root_ = 0;
};

}  // namespace fp
