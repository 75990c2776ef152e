// Finds the plan that fits with the fewest changed keys.
#include <algorithm>

#include "base/error.h"
#include "base/stopwatch.h"
#include "config/open_keys.h"
#include "planner/candidates.h"
#include "planner/savings.h"
#include "planner/search.h"
#include "sharding/arrange.h"

namespace fp {
namespace {

constexpr int kTries = 6;  // exact estimates for each number of changed keys

// All combinations of values that save memory, of the keys that can save it.
std::vector<Plan> memory_savers(const RunSpec& spec, const Plan& from, int ranks, const ClusterSpec& cluster,
                                int64_t sharers) {
  std::vector<Plan> plans = {from};
  const auto vary = [&](auto member, const auto& values) {
    const size_t n = plans.size();
    for (size_t i = 0; i < n; ++i)
      for (const auto& value : values) {
        Plan p = plans[i];
        p.*member = value;
        plans.push_back(std::move(p));
      }
  };
  std::vector<Recompute> recompute;
  if (from.recompute == Recompute::none) recompute = {Recompute::selective, Recompute::full};
  if (from.recompute == Recompute::selective) recompute = {Recompute::full};
  std::vector<int64_t> batches, zero, chunks;
  for (int64_t b = 1; b < from.micro_batch; b *= 2)
    if (from.micro_batch % b == 0) batches.push_back(b);
  for (int64_t z = from.zero_stage + 1; z <= 3 && sharers > 1; ++z) zero.push_back(z);
  for (const int64_t c : {256, 64})
    if (c < from.loss_chunk_tokens) chunks.push_back(c);
  vary(&Plan::recompute, recompute);
  vary(&Plan::micro_batch, batches);
  vary(&Plan::zero_stage, zero);
  if (from.tensor > 1 && !from.megatron_sp) vary(&Plan::megatron_sp, std::vector<bool>{true});
  vary(&Plan::loss_chunk_tokens, chunks);
  // Values of the other keys that save memory come from the plans with all savings.
  RunSpec open = spec;
  open.parallel.open = {
      "offload.activations", "mlp_tile_tokens", "sequence_chunk_tokens", "offload.optimizer", "offload.weights",
      "device_share",        "subgroup"};
  Plan full = from;
  full.recompute = Recompute::full;
  const std::vector<Plan> savings = Savings(open, ranks, cluster).of(full);
  const auto vary_as_saved = [&](auto member) {
    std::vector<std::decay_t<decltype(from.*member)>> values;
    for (const Plan& p : savings)
      if (p.*member != from.*member && std::ranges::find(values, p.*member) == values.end())
        values.push_back(p.*member);
    vary(member, values);
  };
  vary_as_saved(&Plan::activations);
  vary_as_saved(&Plan::mlp_tile_tokens);
  vary_as_saved(&Plan::sequence_chunk_tokens);
  // State in host memory saves memory of the device with a share and subgroups that suit it.
  const auto place = [](const Plan& p) { return std::pair(p.optimizer, p.weights); };
  std::vector<Plan> places = {from};
  for (const Plan& p : savings)
    if (std::ranges::find(places, place(p), place) == places.end()) places.push_back(p);
  const size_t n = plans.size();
  for (size_t s = 1; s < places.size(); ++s)
    for (size_t i = 0; i < n; ++i) {
      Plan p = plans[i];
      p.optimizer = places[s].optimizer;
      p.weights = places[s].weights;
      p.device_share = places[s].device_share;
      p.subgroup = places[s].subgroup;
      plans.push_back(std::move(p));
    }
  return plans;
}

class Nearest {
 public:
  Nearest(const RunSpec& spec, int ranks, PlanEstimator& estimator, double seconds)
      : spec_(spec), ranks_(ranks), estimator_(estimator), seconds_(seconds) {}

  double left() const { return seconds_ - (thread_seconds() - start_); }

  // Returns the fastest of these plans that fits.
  std::optional<Choice> fastest(const std::vector<Plan>& plans) {
    std::vector<Choice> likely;
    for (const Plan& p : plans) {
      if (left() <= 0 || !is_legal(spec_, p, ranks_)) continue;
      try {
        const Estimate e = estimator_.quick_estimate(with_plan(spec_, p), ranks_);
        if (memory_fraction(e.memory) <= 1 + kQuickEstimateError) likely.push_back({p, e, false, {}});
      } catch (const ConfigError&) {  // not legal after all
      }
    }
    std::stable_sort(likely.begin(), likely.end(),
                     [](const Choice& a, const Choice& b) { return a.estimate.time.total < b.estimate.time.total; });
    for (size_t i = 0; i < std::min<size_t>(likely.size(), kTries) && left() > 0; ++i) {
      likely[i].estimate.memory = estimator_.memory(likely[i].estimate.spec, ranks_);
      if (likely[i].estimate.memory.fits()) return likely[i];
    }
    return {};
  }

 private:
  const RunSpec& spec_;
  const int ranks_;
  PlanEstimator& estimator_;
  const double seconds_;
  const double start_ = thread_seconds();
};

}  // namespace

std::optional<Choice> nearest_fitting(const RunSpec& spec, int ranks, const ClusterSpec& cluster,
                                      PlanEstimator& estimator, double seconds) {
  RunSpec base = spec;
  const Mesh mesh = arrange(base, ranks);
  const Plan from = plan_of(base);
  Nearest nearest(base, ranks, estimator, seconds);
  const std::vector<Plan> plans = memory_savers(base, from, ranks, cluster, mesh.dp() * mesh.sp());
  for (size_t changes = 1; changes <= 5; ++changes) {
    std::vector<Plan> with_so_many;
    for (const Plan& p : plans)
      if (list_changed_keys(from, p).size() == changes) with_so_many.push_back(p);
    if (auto found = nearest.fastest(with_so_many)) return found;
  }
  if (nearest.left() <= 0 || ranks == 1) return {};
  base.parallel.open = {"all"};  // other pipeline keys that are written stay, and so do the keys that they determine
  Written nothing;
  resolve_open_keys(base, nothing);
  try {
    return search(base, ranks, cluster, estimator, {nearest.left() / 3, 4}).best;
  } catch (const ConfigError&) {
    return {};
  }
}

}  // namespace fp
