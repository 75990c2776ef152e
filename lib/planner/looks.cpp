#include "planner/looks.h"

#include <algorithm>

#include "base/error.h"
#include "base/progress.h"

namespace fp {
namespace {

constexpr double kUntaught = 1e9;

}  // namespace

const Estimate* Looks::glance(const Plan& plan) {
  const auto [it, fresh] = looked_at_.try_emplace(plan);
  if (!fresh) return it->second.estimate.ranks > 0 ? &it->second.estimate : nullptr;
  ++glances_;
  progress();
  try {
    it->second = {plan, judge_.glance(with_plan(spec_, plan), ranks_), false, {}};
    return &it->second.estimate;
  } catch (const ConfigError& e) {
    if (trouble_.empty()) trouble_ = e.what();
    it->second.estimate.ranks = 0;
    return nullptr;
  }
}

const Choice& Looks::exactly(const Plan& plan) {
  Choice& c = looked_at_.at(plan);
  if (c.exact) return c;
  ++estimates_;
  progress();
  const double glanced = fullness(c.estimate.memory);
  try {
    c.estimate = judge_.estimate(with_plan(spec_, plan), ranks_);
    c.exact = true;
    const auto [it, first] = taught_.try_emplace({plan.schedule, plan.zero_stage}, kUntaught);
    it->second = std::min(it->second, fullness(c.estimate.memory) / glanced);
  } catch (const ConfigError&) {
    c.estimate.ranks = 0;
  }
  return c;
}

const RankMemory& Looks::on_every_rank(const Plan& plan) {
  Choice& c = looked_at_.at(plan);
  return c.estimate.memory = judge_.memory(c.estimate.spec, ranks_);
}

std::vector<const Choice*> Looks::ranking() const {
  std::vector<const Choice*> list;
  for (const auto& [plan, c] : looked_at_)
    if (c.estimate.ranks > 0) list.push_back(&c);
  std::stable_sort(list.begin(), list.end(),
                   [](const Choice* a, const Choice* b) { return a->estimate.time.total < b->estimate.time.total; });
  return list;
}

const Choice* Looks::fastest_fitting() const {
  for (const Choice* c : ranking())
    if (c->exact && c->estimate.memory.fits()) return c;
  return nullptr;
}

double Looks::likely_fullness(const Choice& c) const {
  const auto it = taught_.find({c.plan.schedule, c.plan.zero_stage});
  const double low = c.exact || it == taught_.end() ? 1 : it->second / kPerhaps;
  return fullness(c.estimate.memory) * std::max(low, 1.0);
}

}  // namespace fp
