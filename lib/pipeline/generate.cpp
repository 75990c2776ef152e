#include <algorithm>

#include "base/error.h"
#include "pipeline/orders.h"
#include "pipeline/simulate.h"

namespace fp {

std::vector<int> Placement::stages_of(int rank) const {
  std::vector<int> held;
  for (int pipe = 0; pipe < pipes(); ++pipe)
    for (int c = 0; c < chunks; ++c) held.push_back(stage_of(pipe, rank, c));
  std::sort(held.begin(), held.end());
  return held;
}

Schedule generate(const ScheduleRequest& request) { return generate(request, Costs{}); }

Schedule generate(const ScheduleRequest& request, const Costs& costs) {
  const ScheduleRequest q = complete(request);
  const ScheduleKind& kind = properties_of(q.kind);
  Schedule s{.kind = std::string(name_of(q.kind)),
             .placement = placement_of(q),
             .micro_batches = q.micro_batches,
             .ranks = {}};
  if (!kind.order) {
    s.ranks = wave_orders(q, s.placement, costs);
    return s;
  }
  int peak = 0;
  for (int r = 0; r < q.ranks; ++r) {
    s.ranks.push_back(kind.order(q, s.placement, r));
    peak = std::max(peak, peak_chunks(s.ranks.back()));
  }
  return q.w_pass ? split_weight_gradients(s, costs, q.memory_cap > 0 ? q.memory_cap : peak) : s;
}

Schedule forward_only(const Placement& placement, int micro_batches) {
  FP_CHECK(micro_batches % placement.pipes() == 0, "{} micro-batches in two pipes", micro_batches);
  Schedule s{.kind = "forward", .placement = placement, .micro_batches = micro_batches, .ranks = {}};
  // Stage by stage, so that no cycle of waits arises and ranks that share stages run them in the same order.
  for (int r = 0; r < placement.ranks; ++r) {
    std::vector<Action>& list = s.ranks.emplace_back();
    for (const int stage : placement.stages_of(r))
      for (int pipe = 0; pipe < placement.pipes(); ++pipe)
        for (int j = 0; j < s.of_pipe() && placement.rank_of(pipe, stage) == r; ++j)
          list.push_back({.pipe = static_cast<uint8_t>(pipe), .stage = stage, .micro_batch = j});
  }
  return s;
}

}  // namespace fp
