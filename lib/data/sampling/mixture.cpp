#include "data/sampling/mixture.h"

#include <cmath>
#include <numeric>

#include "base/error.h"

namespace fp {
namespace {

constexpr int kShareBits = 63;

// Returns how many of the first `count` samples at a node go left: count * share, rounded half up.
uint64_t left_count(uint64_t count, uint64_t share) {
  using Wide = unsigned __int128;
  return static_cast<uint64_t>((Wide{count} * share + (Wide{1} << (kShareBits - 1))) >> kShareBits);
}

}  // namespace

Mixture::Mixture(std::span<const double> weights) {
  FP_CHECK(!weights.empty(), "a mixture of no datasets");
  for (const double w : weights)
    if (!(w > 0.0) || !std::isfinite(w))
      throw ConfigError(fmt::format("data.train: weight {}: legal: a number above 0", w));
  if (!std::isfinite(std::accumulate(weights.begin(), weights.end(), 0.0)))
    throw ConfigError("data.train: the weights add up to more than a number can hold; only their ratios matter");
  root_ = build(weights, 0, static_cast<int>(weights.size()));
}

int Mixture::build(std::span<const double> weights, int begin, int end) {
  if (end - begin == 1) return ~begin;
  const int middle = begin + (end - begin) / 2;
  const double left = std::accumulate(weights.begin() + begin, weights.begin() + middle, 0.0);
  const double all = std::accumulate(weights.begin() + middle, weights.begin() + end, left);
  const auto share = static_cast<uint64_t>(std::ldexp(left / all, kShareBits));
  const Node node{share, build(weights, begin, middle), build(weights, middle, end)};
  nodes_.push_back(node);
  return static_cast<int>(nodes_.size()) - 1;
}

Mixture::Item Mixture::at(uint64_t g) const {
  int node = root_;
  while (node >= 0) {
    const Node& n = nodes_[static_cast<size_t>(node)];
    const uint64_t left = left_count(g, n.left_share);
    const bool goes_left = left_count(g + 1, n.left_share) > left;
    node = goes_left ? n.left : n.right;
    g = goes_left ? left : g - left;
  }
  return {~node, g};
}

void Mixture::count(int node, uint64_t samples, std::vector<uint64_t>& counts) const {
  if (node < 0) {
    counts[static_cast<size_t>(~node)] = samples;
    return;
  }
  const Node& n = nodes_[static_cast<size_t>(node)];
  const uint64_t left = left_count(samples, n.left_share);
  count(n.left, left, counts);
  count(n.right, samples - left, counts);
}

std::vector<uint64_t> Mixture::counts(uint64_t samples) const {
  std::vector<uint64_t> counts(nodes_.size() + 1);  // a binary tree has one leaf more than inner nodes
  count(root_, samples, counts);
  return counts;
}

}  // namespace fp
