#include "planner/estimate_cache.h"

#include <algorithm>

#include "base/error.h"
#include "base/progress.h"

namespace fp {
namespace {

constexpr double kNoCorrection = 1e9;

}  // namespace

const Estimate* EstimateCache::quick_estimate(const Plan& plan) {
  const auto [it, fresh] = known_.try_emplace(plan);
  if (!fresh) return it->second.estimate.ranks > 0 ? &it->second.estimate : nullptr;
  ++quick_estimates_;
  progress();
  try {
    it->second = {plan, estimator_.quick_estimate(with_plan(spec_, plan), ranks_), false, {}};
    return &it->second.estimate;
  } catch (const ConfigError& e) {
    if (first_error_.empty()) first_error_ = e.what();
    it->second.estimate.ranks = 0;
    return nullptr;
  }
}

const Choice& EstimateCache::exact_estimate(const Plan& plan) {
  Choice& c = known_.at(plan);
  if (c.exact) return c;
  ++estimates_;
  progress();
  const double quick = memory_fraction(c.estimate.memory);
  try {
    c.estimate = estimator_.estimate(with_plan(spec_, plan), ranks_);
    c.exact = true;
    const auto [it, first] = corrections_.try_emplace({plan.schedule, plan.zero_stage}, kNoCorrection);
    it->second = std::min(it->second, memory_fraction(c.estimate.memory) / quick);
  } catch (const ConfigError&) {
    c.estimate.ranks = 0;
  }
  return c;
}

const RankMemory& EstimateCache::exact_memory(const Plan& plan) {
  Choice& c = known_.at(plan);
  return c.estimate.memory = estimator_.memory(c.estimate.spec, ranks_);
}

std::vector<const Choice*> EstimateCache::ranking() const {
  std::vector<const Choice*> list;
  for (const auto& [plan, c] : known_)
    if (c.estimate.ranks > 0) list.push_back(&c);
  std::stable_sort(list.begin(), list.end(),
                   [](const Choice* a, const Choice* b) { return a->estimate.time.total < b->estimate.time.total; });
  return list;
}

const Choice* EstimateCache::fastest_fitting(const std::function<bool(const Plan&)>& wanted) const {
  for (const Choice* c : ranking())
    if (c->exact && c->estimate.memory.fits() && wanted(c->plan)) return c;
  return nullptr;
}

double EstimateCache::likely_memory_fraction(const Choice& c) const {
  const auto it = corrections_.find({c.plan.schedule, c.plan.zero_stage});
  const double low = c.exact || it == corrections_.end() ? 1 : it->second / kPerhaps;
  return memory_fraction(c.estimate.memory) * std::max(low, 1.0);
}

}  // namespace fp
