#include "planner/dial.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/progress.h"
#include "config/open_keys.h"
#include "planner/candidates.h"
#include "planner/savings.h"

namespace fp {
namespace {

bool fits_on_host(const RankMemory& m) { return m.node_bytes <= m.node_available && m.over_host_budget() <= 0; }

// Leaves out each plan but `kept` if another needs no more memory and no more time. Those with most memory come first.
void leave_out_worse(std::vector<Choice>& list, const Plan& kept) {
  std::ranges::stable_sort(
      list, {}, [](const Choice& c) { return std::pair(c.estimate.memory.device_bytes, c.estimate.time.total); });
  std::vector<Choice> best;
  double least = std::numeric_limits<double>::infinity();  // seconds
  for (const Choice& c : list) {                           // with rising memory
    if (c.plan == kept || c.estimate.time.total < least) best.push_back(c);
    least = std::min(least, c.estimate.time.total);
  }
  list.assign(best.rbegin(), best.rend());
}

}  // namespace

std::vector<DialRow> turn_dial(const RunSpec& spec, const Plan& plan, int ranks, const ClusterSpec& cluster,
                               PlanEstimator& estimator) {
  const Candidates candidates(spec, ranks, cluster);
  Plan none = Savings(spec, ranks, cluster).without(plan);
  const bool shards = plan.data * plan.sequence > 1 && !spec.precision.stochastic_rounding;
  if (is_open(spec, "zero_stage")) none.zero_stage = shards ? 1 : 0;
  std::vector<Choice> list;
  for (const Plan& p : candidates.with_less_memory(none)) {
    if (!is_legal(spec, p, ranks)) continue;
    progress();
    const Estimate quick = estimator.quick_estimate(with_plan(spec, p), ranks);
    if (fits_on_host(quick.memory)) list.push_back({p, quick, false, {}});
  }
  leave_out_worse(list, plan);
  for (Choice& c : list) {
    progress();
    c.estimate = estimator.estimate(c.estimate.spec, ranks);
    c.exact = true;
  }
  std::erase_if(list, [](const Choice& c) { return !fits_on_host(c.estimate.memory); });
  leave_out_worse(list, plan);
  std::vector<DialRow> rows;
  for (const Choice& c : list) {
    DialRow row{c, changed_keys(none, c.plan), 0};
    if (!rows.empty()) {
      const Estimate &before = rows.back().choice.estimate, &now = row.choice.estimate;
      const auto bytes = static_cast<double>(before.memory.device_bytes - now.memory.device_bytes);
      if (bytes > 0) row.ms_per_gib = 1000 * (now.time.total - before.time.total) / (bytes / (1 << 30));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace fp
