#include "sharding/stages.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "config/model_facts.h"

namespace fp {
namespace {

// Cost of a cut: the most expensive stage, then the sum of squares as a measure of imbalance.
struct Burden {
  double worst = 0, squares = 0;
  bool operator<(const Burden& o) const { return worst != o.worst ? worst < o.worst : squares < o.squares; }
};

// An upper bound on the most expensive stage of the best cut: that of an even split of the layers by number.
double bound_of(const std::vector<double>& before, double head, int stages) {
  const size_t count = before.size() - 1,
               each = (count + static_cast<size_t>(stages) - 1) / static_cast<size_t>(stages);
  double most = 0;
  for (size_t end = std::min(each, count); end <= count; ++end)
    most = std::max(most, before[end] - before[end - std::min(each, end)]);
  return most + head;
}

// Layers of each stage, by dynamic programming over (stages, layers so far). Only the first and last may have none.
std::vector<int64_t> balanced(const ModelSection& m, int64_t seq_len, int stages) {
  const auto count = static_cast<size_t>(m.layers), last = static_cast<size_t>(stages - 1);
  std::vector<double> before(count + 1, 0.0);  // cost of all layers before this one
  for (size_t l = 0; l < count; ++l)
    before[l + 1] = before[l] + layer_flops_per_token(m, static_cast<int64_t>(l), seq_len);
  const double head = head_flops_per_token(m), bound = bound_of(before, head, stages);
  const Burden never{std::numeric_limits<double>::infinity(), 0};
  std::vector<std::vector<Burden>> best(static_cast<size_t>(stages), std::vector<Burden>(count + 1, never));
  std::vector<std::vector<size_t>> from(static_cast<size_t>(stages), std::vector<size_t>(count + 1, 0));
  for (size_t s = 0; s <= last; ++s)
    for (size_t end = 0; end <= count; ++end)
      for (size_t fewest = s == 0 ? end : s == last ? 0 : 1, n = fewest; n <= (s == 0 ? fewest : end); ++n) {
        const size_t begin = end - n;
        const double cost = before[end] - before[begin] + (s == last ? head : 0);
        if (cost > bound) break;
        const Burden so_far = s == 0 ? Burden() : best[s - 1][begin];
        const Burden b{std::max(so_far.worst, cost), so_far.squares + cost * cost};
        if (best[s][end] < b) continue;
        best[s][end] = b;
        from[s][end] = begin;
      }
  std::vector<int64_t> layers(last + 1);
  size_t end = count;
  for (size_t s = last + 1; s-- > 0; end = from[s][end]) layers[s] = static_cast<int64_t>(end - from[s][end]);
  return layers;
}

void check_layers(const ModelSection& m, const std::vector<int64_t>& layers, int stages) {
  const int64_t sum = std::accumulate(layers.begin(), layers.end(), int64_t{0});
  if (static_cast<int>(layers.size()) != stages || sum != m.layers)
    throw ConfigError(fmt::format(
        "parallel.pipeline.layers gives {} layers to {} stages, but model.layers = {} and the schedule has {} stages "
        "(parallel.pipeline.ranks x chunks); use `auto`, or {} numbers with the sum {}",
        sum, layers.size(), m.layers, stages, stages, m.layers));
  for (size_t s = 1; s + 1 < layers.size(); ++s)
    if (layers[s] == 0)
      throw ConfigError(
          fmt::format("parallel.pipeline.layers: stage {} of {} has no layer; only the first and the "
                      "last, which have the embedding and the LM head, may have none",
                      s, stages));
}

}  // namespace

bool HeldParts::everything() const {
  return embedding && head && std::all_of(layers.begin(), layers.end(), [](bool held) { return held; });
}

std::vector<StagePart> cut_into_stages(const ModelSection& m, int64_t seq_len, const std::vector<int64_t>& layers,
                                       int stages) {
  if (stages > m.layers + 2)
    throw ConfigError(
        fmt::format("parallel.pipeline: {} stages (ranks x chunks) for model.layers = {}; use {} stages at most",
                    stages, m.layers, m.layers + 2));
  if (!layers.empty()) check_layers(m, layers, stages);
  std::vector<StagePart> parts;
  int64_t first = 0;
  for (const int64_t n : layers.empty() ? balanced(m, seq_len, stages) : layers) {
    const auto s = static_cast<int>(parts.size());
    parts.push_back({first, n, s == 0, s == stages - 1});
    first += n;
  }
  return parts;
}

HeldParts held_by(const std::vector<StagePart>& stages, const Placement& placement, int rank) {
  HeldParts held{false, false,
                 std::vector<bool>(static_cast<size_t>(stages.back().first_layer + stages.back().layers))};
  for (const int s : placement.stages_of(rank)) {
    const StagePart& part = stages[static_cast<size_t>(s)];
    held.embedding = held.embedding || part.embedding;
    held.head = held.head || part.head;
    for (int64_t l = 0; l < part.layers; ++l) held.layers[static_cast<size_t>(part.first_layer + l)] = true;
  }
  return held;
}

}  // namespace fp
