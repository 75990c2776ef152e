#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

#include "base/error.h"
#include "pipeline/flow.h"
#include "pipeline/orders.h"

namespace fp {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Replays the fused lists with B in place of D. Where a rank would wait or exceed its cap, it runs its oldest pending
// weight gradient, unless the awaited input arrives before `share` of that would be done.
class WeightPass {
 public:
  WeightPass(const Schedule& fused, const Costs& costs, const std::vector<int>& caps, double share)
      : fused_(fused),
        costs_(costs),
        share_(share),
        flow_(fused),
        arrival_(static_cast<size_t>(flow_.outputs()), kNever) {
    for (size_t r = 0; r < caps.size(); ++r) {
      ranks_.push_back({.cap = caps[r]});
      wakes_.emplace(0.0, static_cast<int>(r));
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
    size_t next = 0;  // in the fused list
    double free_at = 0;
    int live = 0;
    std::queue<Action> pending = {};  // weight gradients
    std::vector<Action> list = {};
  };

  // When the action's input is on its rank.
  double ready_at(const Action& a) const {
    const int input = flow_.input_of(a);
    return input < 0 ? 0 : arrival_[static_cast<size_t>(input)];
  }

  void act(int r, double now) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    const std::vector<Action>& list = fused_.ranks[static_cast<size_t>(r)];
    constexpr double kRounding = 1e-9;  // the same times may be summed in another order
    if (rank.next < list.size()) {
      const Action& a = list[rank.next];
      const bool fits = a.kind != ActionKind::forward || rank.live < rank.cap;
      const double ready = ready_at(a);
      if (fits && ready <= now * (1 + kRounding)) {
        ++rank.next;
        return start(r, a.kind == ActionKind::forward ? a : with_kind(a, ActionKind::backward_input),
                     std::max(now, ready));
      }
      if (fits && !rank.pending.empty() && ready < now + share_ * costs_.of(rank.pending.front())) return;
    }
    if (rank.pending.empty()) return;
    const Action a = rank.pending.front();
    rank.pending.pop();
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
    if (a.kind == ActionKind::backward_input) rank.pending.push(with_kind(a, ActionKind::backward_weight));
    const int output = flow_.output_of(a);
    if (output < 0) return;
    const bool crosses = flow_.crosses(output);
    arrival_[static_cast<size_t>(output)] = rank.free_at + (crosses ? costs_.hop : 0);
    if (crosses) wakes_.emplace(arrival_[static_cast<size_t>(output)], flow_.consumer(output));
  }

  const Schedule& fused_;
  const Costs& costs_;
  const double share_;
  const Flow flow_;
  std::vector<double> arrival_;  // by output: when it is on the rank that consumes it
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
  // Without pending weight gradients a rank holds as much as in the fused order, so that cap is enough.
  const int least = *std::max_element(caps.begin(), caps.end());
  if (cap > 0 && cap < least) refuse_cap(fused.kind, cap, least);
  if (cap > 0) std::fill(caps.begin(), caps.end(), cap);
  Schedule best;
  double shortest = kNever;
  // A weight gradient in too small a gap delays the critical path. The best limit differs, so several are tried.
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    Schedule split = fused;
    split.ranks = WeightPass(fused, costs, caps, share).run();
    const double makespan = simulate(split, costs).makespan;
    if (makespan < shortest * (1 - 1e-9)) {
      shortest = makespan;
      best = std::move(split);
    }
  }
  return best;
}

}  // namespace fp
