#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

#include "base/error.h"
#include "schedule/orders.h"

namespace fp {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Replays the fused lists with B for D; where a rank would wait, or hold too much, it does the weight gradient it owes
// longest.
class WeightPass {
 public:
  WeightPass(const Schedule& fused, const Costs& costs, const std::vector<int>& caps) : fused_(fused), costs_(costs) {
    const Placement& p = fused.placement;
    const size_t cells = static_cast<size_t>(p.pipes() * p.stages()) * static_cast<size_t>(fused.of_pipe());
    inputs_.assign(cells, kNever);
    gradients_.assign(cells, kNever);
    for (int r = 0; r < p.ranks; ++r) {
      ranks_.push_back({.cap = caps[static_cast<size_t>(r)]});
      wakes_.emplace(0.0, r);
    }
  }

  std::vector<std::vector<Action>> run() {
    while (!wakes_.empty()) {
      const auto [now, r] = wakes_.top();
      wakes_.pop();
      if (ranks_[static_cast<size_t>(r)].free_at <= now) act(r, now);
    }
    std::vector<std::vector<Action>> lists;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      FP_CHECK(ranks_[r].next == fused_.ranks[r].size(), "{}: rank {} is stuck", fused_.kind, r);
      lists.push_back(std::move(ranks_[r].list));
    }
    return lists;
  }

 private:
  struct Rank {
    int cap = 0;
    size_t next = 0;  // of the fused list
    double free_at = 0;
    int live = 0;
    std::queue<Action> owed = {};
    std::vector<Action> list = {};
  };

  size_t cell(const Action& a, int stage) const {
    return static_cast<size_t>(a.pipe * fused_.placement.stages() + stage) * static_cast<size_t>(fused_.of_pipe()) +
           static_cast<size_t>(a.micro_batch);
  }

  // When what the action needs is on its rank.
  double ready_at(const Action& a) const {
    const bool forward = a.kind == ActionKind::forward;
    if (a.stage == (forward ? 0 : fused_.placement.stages() - 1)) return 0;
    return (forward ? inputs_ : gradients_)[cell(a, a.stage)];
  }

  void act(int r, double now) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    const std::vector<Action>& list = fused_.ranks[static_cast<size_t>(r)];
    constexpr double kRounding = 1e-9;  // sums of the same times in another order
    if (rank.next < list.size()) {
      const Action& a = list[rank.next];
      const bool fits = a.kind != ActionKind::forward || rank.live < rank.cap;
      if (const double ready = ready_at(a); fits && ready <= now * (1 + kRounding)) {
        ++rank.next;
        return start(r, a.kind == ActionKind::forward ? a : with_kind(a, ActionKind::backward_input),
                     std::max(now, ready));
      }
    }
    if (rank.owed.empty()) return;
    const Action a = rank.owed.front();
    rank.owed.pop();
    start(r, a, now);
  }

  static Action with_kind(Action a, ActionKind kind) {
    a.kind = kind;
    return a;
  }

  void start(int r, const Action& a, double now) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    rank.list.push_back(a);
    rank.free_at = now + costs_.of(a);
    wakes_.emplace(rank.free_at, r);
    if (a.kind == ActionKind::forward) ++rank.live;
    if (a.kind == ActionKind::backward_weight) {
      --rank.live;
      return;
    }
    if (a.kind == ActionKind::backward_input) rank.owed.push(with_kind(a, ActionKind::backward_weight));
    const Placement& p = fused_.placement;
    const int to = a.stage + (a.kind == ActionKind::forward ? 1 : -1);
    if (to < 0 || to >= p.stages()) return;
    const int receiver = p.rank_of(a.pipe, to);
    double& there = (a.kind == ActionKind::forward ? inputs_ : gradients_)[cell(a, to)];
    there = rank.free_at + (receiver == r ? 0 : costs_.hop);
    if (receiver != r) wakes_.emplace(there, receiver);
  }

  const Schedule& fused_;
  const Costs& costs_;
  std::vector<double> inputs_, gradients_;  // of each cell: when they are on its rank
  std::vector<Rank> ranks_;
  using Wake = std::pair<double, int>;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
};

}  // namespace

Schedule split_weight_gradients(const Schedule& fused, const Costs& costs, int cap) {
  std::vector<int> caps;
  for (const std::vector<Action>& list : fused.ranks) {
    for (const Action& a : list)
      FP_CHECK(a.kind == ActionKind::forward || a.kind == ActionKind::backward, "{} is not fused", fused.kind);
    caps.push_back(peak_chunks(list));
  }
  // With all owed weight gradients done a rank holds what the fused order does, so that is enough.
  const int least = *std::max_element(caps.begin(), caps.end());
  if (cap > 0 && cap < least) refuse_cap(fused.kind, cap, least);
  if (cap > 0) std::fill(caps.begin(), caps.end(), cap);
  Schedule split = fused;
  split.ranks = WeightPass(fused, costs, caps).run();
  return split;
}

}  // namespace fp
