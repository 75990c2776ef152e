// Waves (Hanayo): stages run to the last rank and back, W times. No closed form of the order is published, so a list
// scheduler replays the step: each idle rank starts the best action that is ready.
#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <set>
#include <tuple>

#include "base/error.h"
#include "pipeline/orders.h"

namespace fp {
namespace {

constexpr int kNoCap = std::numeric_limits<int>::max();

// Backward before forward, then by nearness to the micro-batch's end; weight gradients only if nothing else is ready.
struct Best {
  static std::tuple<int, int, int> place(const Action& a) {
    if (a.kind == ActionKind::forward) return {1, -a.stage, a.micro_batch};
    if (a.kind == ActionKind::backward_weight) return {2, a.micro_batch, a.stage};
    return {0, a.stage, a.micro_batch};
  }
  bool operator()(const Action& a, const Action& b) const { return place(a) < place(b); }
};

class ListScheduler {
 public:
  ListScheduler(const ScheduleRequest& q, const Placement& p, const Costs& costs, int cap)
      : request_(q), placement_(p), costs_(costs), cap_(cap), ranks_(static_cast<size_t>(p.ranks)) {}

  // Returns false if it gets stuck because forward actions would exceed the cap.
  bool run() {
    offer_first(0);
    while (!events_.empty()) {
      const double now = events_.top().time;
      while (!events_.empty() && events_.top().time == now) {
        const Event e = events_.top();
        events_.pop();
        Rank& r = rank_of(e.action.stage);
        if (e.ready) {
          r.ready.insert(e.action);
        } else {
          r.busy = false;
          finish(r, e.action, now);
        }
      }
      for (Rank& r : ranks_)
        if (!r.busy) start_best(r, now);
    }
    return left_ == 0;
  }

  std::vector<std::vector<Action>> take() {
    std::vector<std::vector<Action>> lists;
    for (Rank& r : ranks_) lists.push_back(std::move(r.list));
    return lists;
  }

 private:
  struct Rank {
    std::set<Action, Best> ready;
    std::vector<Action> list;
    int live = 0;
    bool busy = false;
  };
  // An action becomes ready, or is done.
  struct Event {
    double time;
    Action action;
    bool ready;
    bool operator>(const Event& other) const { return time > other.time; }
  };

  Rank& rank_of(int stage) { return ranks_[static_cast<size_t>(placement_.rank_of(0, stage))]; }
  ActionKind backward() const { return request_.w_pass ? ActionKind::backward_input : ActionKind::backward; }

  void offer(ActionKind kind, int stage, int micro_batch, double time) {
    events_.push({time, {.kind = kind, .stage = stage, .micro_batch = micro_batch}, true});
  }
  // Offers the action that consumes the output of a neighbouring stage.
  void offer_next(ActionKind kind, int from, int stage, int micro_batch, double now) {
    const bool hops = placement_.rank_of(0, from) != placement_.rank_of(0, stage);
    offer(kind, stage, micro_batch, hops ? now + costs_.hop : now);
  }
  void offer_first(double now) {
    for (; begun_ < request_.micro_batches && begun_ - ended_ < request_.window; ++begun_)
      offer(ActionKind::forward, 0, begun_, now);
  }

  void finish(Rank& r, const Action& a, double now) {
    const bool last = a.stage + 1 == placement_.stages();
    if (a.kind == ActionKind::forward) {
      offer_next(last ? backward() : ActionKind::forward, a.stage, last ? a.stage : a.stage + 1, a.micro_batch, now);
      return;
    }
    if (a.kind != ActionKind::backward_input) --r.live, --left_;
    if (a.kind == ActionKind::backward_weight) return;
    if (a.kind == ActionKind::backward_input) offer(ActionKind::backward_weight, a.stage, a.micro_batch, now);
    if (a.stage > 0) return offer_next(backward(), a.stage, a.stage - 1, a.micro_batch, now);
    ++ended_;
    offer_first(now);
  }

  void start_best(Rank& r, double now) {
    const auto a = std::find_if(r.ready.begin(), r.ready.end(), [&](const Action& ready) {
      return ready.kind != ActionKind::forward || r.live < cap_;
    });
    if (a == r.ready.end()) return;
    if (a->kind == ActionKind::forward) ++r.live;
    r.busy = true;
    r.list.push_back(*a);
    events_.push({now + costs_.of(*a), *a, false});
    r.ready.erase(a);
  }

  const ScheduleRequest& request_;
  const Placement& placement_;
  const Costs& costs_;
  const int cap_;
  std::vector<Rank> ranks_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  int begun_ = 0, ended_ = 0;                                // micro-batches
  int left_ = placement_.stages() * request_.micro_batches;  // (stage, micro-batch) pairs
};

}  // namespace

std::vector<std::vector<Action>> wave_orders(const ScheduleRequest& q, const Placement& placement, const Costs& costs) {
  const auto run = [&](int cap) {
    ListScheduler scheduler(q, placement, costs, cap);
    return scheduler.run() ? scheduler.take() : std::vector<std::vector<Action>>();
  };
  if (!q.w_pass) return run(kNoCap);
  int cap = q.memory_cap;
  if (cap == 0) {
    ScheduleRequest fused = q;
    fused.w_pass = false;
    for (const auto& list : wave_orders(fused, placement, costs)) cap = std::max(cap, peak_chunks(list));
  }
  auto lists = run(cap);
  int least = cap;
  while (lists.empty()) lists = run(++least);
  if (least > cap && q.memory_cap > 0) refuse_cap(name_of(q.kind), cap, least);
  return lists;
}

}  // namespace fp
