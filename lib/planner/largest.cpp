#include "planner/largest.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/error.h"
#include "planner/candidates.h"
#include "planner/savings.h"

namespace fp {
namespace {

constexpr int64_t kShortest = 1024, kLongest = int64_t{1} << 27, kMostLayers = 1 << 14;

// The sizes of a run that are tried: multiples of `unit` up to `end`, to a fraction of the size.
struct Sizes {
  int64_t unit = 1, end = 1;
  int64_t fraction = 1;                // 16: to 1/16
  std::function<RunSpec(int64_t)> at;  // the run of a size
};

class SizeSearch {
 public:
  SizeSearch(const Sizes& sizes, int ranks, const ClusterSpec& cluster, PlanEstimator& estimator)
      : sizes_(sizes), ranks_(ranks), cluster_(cluster), estimator_(estimator) {}

  Largest run(const SearchLimits& limits) {
    const int64_t unit = sizes_.unit, end = sizes_.end;
    int64_t low = 0;  // fits or, as long as none does, is too small for the degrees
    for (int64_t next = std::min(unit, end); low < end && try_size(next); next = std::min(2 * low, end)) low = next;
    while (result_.too_large - low > std::max(unit, low / sizes_.fraction)) {
      const int64_t middle = (low + result_.too_large) / 2 / unit * unit;
      if (middle <= low) break;
      if (try_size(middle)) low = middle;
    }
    if (result_.size == 0) {
      result_.too_large = std::max(result_.too_large, low);
      return result_;
    }
    const RunSpec s = sizes_.at(result_.size);
    const Search fastest = search(s, ranks_, cluster_, estimator_, limits);
    result_.estimate = fastest.best ? fastest.best->estimate : estimator_.estimate(with_plan(s, best_), ranks_);
    return result_;
  }

 private:
  // The plan, whatever values it has that follow from the size.
  static Plan kind_of(Plan p) {
    p.mlp_tile_tokens = std::min<int64_t>(p.mlp_tile_tokens, 1);
    p.subgroup = Plan().subgroup;
    return p;
  }

  // Tries the savings, first those by which a smaller size fitted. What did not fit a smaller size is not tried again.
  // Returns whether larger sizes may fit.
  bool try_size(int64_t size) {
    const RunSpec s = sizes_.at(size);
    std::vector<Plan> plans = Savings(s, ranks_, cluster_).of(plan_of(s));
    std::stable_partition(plans.begin(), plans.end(), [&](const Plan& p) { return kind_of(p) == kind_of(best_); });
    RankMemory least;
    bool legal = false;
    for (const Plan& p : plans) {
      if (!is_legal(s, p, ranks_)) continue;
      legal = true;
      const auto failed = failed_.find(kind_of(p));
      if (failed != failed_.end() && failed->second <= size) continue;
      const RankMemory memory = estimator_.memory(with_plan(s, p), ranks_);
      if (memory.fits()) {
        best_ = p;
        result_.size = size;
        return true;
      }
      if (least.available == 0 || memory.missing() < least.missing()) least = memory;
      failed_[kind_of(p)] = size;
    }
    if (!legal && result_.size == 0) return true;
    result_.too_large = size;
    result_.beyond = least;
    return false;
  }

  const Sizes& sizes_;
  const int ranks_;
  const ClusterSpec& cluster_;
  PlanEstimator& estimator_;
  Plan best_;
  std::map<Plan, int64_t> failed_;  // smallest size that did not fit, by kind of plan
  Largest result_;
};

}  // namespace

Largest longest_sequence(const RunSpec& spec, int ranks, const ClusterSpec& cluster, PlanEstimator& estimator,
                         const SearchLimits& limits) {
  const bool learned = spec.model.traits().learned_positions;
  const auto at = [&](int64_t tokens) {
    RunSpec s = spec;
    s.data.seq_len = tokens;
    if (!learned) s.model.max_position = std::max(s.model.max_position, tokens);
    return s;
  };
  const Sizes sizes{kShortest, learned ? spec.model.max_position : kLongest, 16, at};
  return SizeSearch(sizes, ranks, cluster, estimator).run(limits);
}

Largest largest_model(const RunSpec& spec, int ranks, const ClusterSpec& cluster, PlanEstimator& estimator,
                      const SearchLimits& limits) {
  const auto at = [&](int64_t layers) {
    RunSpec s = spec;
    s.model = scaled_model(spec.model, layers);
    return s;
  };
  const Sizes sizes{1, kMostLayers, kMostLayers, at};
  return SizeSearch(sizes, ranks, cluster, estimator).run(limits);
}

ModelSection scaled_model(const ModelSection& like, int64_t layers) {
  constexpr int64_t kRound = 256;
  ModelSection m = like;
  m.preset.clear();
  m.init_from.clear();
  const int64_t pieces = like.hidden % like.kv_heads == 0 ? like.kv_heads : 1, piece = like.hidden / pieces;
  const double scale = static_cast<double>(layers) / static_cast<double>(like.layers);
  const int64_t n = std::max<int64_t>(1, std::llround(scale * static_cast<double>(pieces)));
  m.layers = layers;
  m.hidden = n * piece;
  m.kv_heads = like.kv_heads / pieces * n;
  m.heads = like.heads / pieces * n;
  const int64_t multiple = std::min(like.ffn & -like.ffn, kRound);
  m.ffn = std::max<int64_t>(
              1, std::llround(static_cast<double>(like.ffn * m.hidden) / static_cast<double>(like.hidden * multiple))) *
          multiple;
  return m;
}

}  // namespace fp
