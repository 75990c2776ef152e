#include "pipeline/simulate.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "pipeline/orders.h"

namespace fp {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

bool has_messages(const Schedule& s) {
  for (const std::vector<Action>& list : s.ranks)
    for (const Action& a : list)
      if (is_send(a.kind) || is_receive(a.kind)) return true;
  return false;
}

// Runs each rank's list until it has to wait, and continues when something it may wait for is there.
class SimulatedReplay {
 public:
  SimulatedReplay(const Schedule& s, const Costs& c) : schedule_(s), costs_(c), lowered_(has_messages(s)) {
    const Placement& p = s.placement;
    FP_CHECK(static_cast<int>(s.ranks.size()) == p.ranks, "{} lists for {} ranks", s.ranks.size(), p.ranks);
    FP_CHECK(c.by_stage.empty() || static_cast<int>(c.by_stage.size()) == p.stages(), "costs of {} stages for {}",
             c.by_stage.size(), p.stages());
    const size_t cells = static_cast<size_t>(p.pipes() * p.stages()) * static_cast<size_t>(s.of_pipe());
    for (Direction* d : {&forward_, &backward_})
      *d = {Times(cells, kNever), Times(cells, kNever), Times(cells, kNever),
            std::vector<std::vector<int>>(static_cast<size_t>(p.pipes() * p.stages()))};
    for (size_t r = 0; r < s.ranks.size(); ++r) {
      ranks_.push_back({.whole = Times(static_cast<size_t>(p.stages()))});
      actions_.emplace_back(s.ranks[r].size());
      for (const Action& a : s.ranks[r]) check_range(a);
    }
  }

  std::vector<std::vector<Interval>> run() {
    for (int r = schedule_.placement.ranks - 1; r >= 0; --r) awake_.push_back(r);
    while (!awake_.empty()) {
      const int r = awake_.back();
      awake_.pop_back();
      ranks_[static_cast<size_t>(r)].awake = false;
      advance(r);
    }
    for (size_t r = 0; r < ranks_.size(); ++r)
      FP_CHECK(ranks_[r].next == actions_[r].size(), "{}: rank {} waits for ever at action {} of {}", schedule_.kind, r,
               ranks_[r].next, actions_[r].size());
    return std::move(actions_);
  }

 private:
  using Times = std::vector<double>;
  // Times of the outputs of one direction by producing cell (`posted`: by consuming cell).
  struct Direction {
    Times made, sent, posted;
    std::vector<std::vector<int>> sends = {};  // by pipe and sending stage: micro-batches in order of sending
  };
  struct Rank {
    size_t next = 0;
    double clock = 0;       // end of its computation so far
    double collective = 0;  // end of its gathers and reductions so far, which run one by one beside the computation
    bool awake = true;
    bool pair_done = false;  // the next backward action has run already, as one with its forward action
    Times whole = {};        // by stage: when its weights are gathered
  };

  void check_range(const Action& a) const {
    const Placement& p = schedule_.placement;
    const bool whole_stage = !is_compute(a.kind) && !is_send(a.kind) && !is_receive(a.kind);
    const bool legal = a.pipe < p.pipes() && a.stage >= 0 && a.stage < p.stages() &&
                       (whole_stage || (a.micro_batch >= 0 && a.micro_batch < schedule_.of_pipe()));
    FP_CHECK(legal, "{}: no stage {} of micro-batch {} in pipe {}", schedule_.kind, a.stage, a.micro_batch, a.pipe);
  }

  size_t cell(const Action& a, int stage) const {
    return static_cast<size_t>(a.pipe * schedule_.placement.stages() + stage) *
               static_cast<size_t>(schedule_.of_pipe()) +
           static_cast<size_t>(a.micro_batch);
  }
  int rank_of(const Action& a, int stage) const { return schedule_.placement.rank_of(a.pipe, stage); }

  // When the output of stage `from` for a's stage is on that stage's rank.
  double arrival(const Direction& d, const Action& a, int from) const {
    if (from < 0 || from >= schedule_.placement.stages()) return 0;
    if (rank_of(a, from) == rank_of(a, a.stage)) return d.made[cell(a, from)];
    if (!lowered_) return d.made[cell(a, from)] + costs_.hop;
    return std::max(d.sent[cell(a, from)], d.posted[cell(a, a.stage)]) + costs_.hop;
  }

  double input(const Rank& rank, const Action& a) const {
    if (a.kind == ActionKind::backward_weight) return backward_.made[cell(a, a.stage)];
    const double weights = rank.whole[static_cast<size_t>(a.stage)];
    if (a.kind == ActionKind::forward) return std::max(weights, arrival(forward_, a, a.stage - 1));
    return std::max({weights, forward_.made[cell(a, a.stage)], arrival(backward_, a, a.stage + 1)});
  }

  void wake(int r) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    if (!rank.awake) awake_.push_back(r);
    rank.awake = true;
  }

  // Wakes the rank that may wait for the output that `a` computes or sends.
  void wake_next(const Action& a) {
    const bool down = a.kind == ActionKind::forward || a.kind == ActionKind::send_forward;
    const int stage = a.stage + (down ? 1 : -1);
    if (stage >= 0 && stage < schedule_.placement.stages()) wake(rank_of(a, stage));
  }

  void advance(int r) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    const std::vector<Action>& list = schedule_.ranks[static_cast<size_t>(r)];
    while (rank.next < list.size() && perform(rank, list, actions_[static_cast<size_t>(r)])) ++rank.next;
  }

  // Returns false if the rank's next action has to wait.
  bool perform(Rank& rank, const std::vector<Action>& list, std::vector<Interval>& times) {
    const Action& a = list[rank.next];
    Interval& when = times[rank.next];
    if (is_compute(a.kind)) {
      if (std::exchange(rank.pair_done, false)) return true;
      if (a.paired_with_next && costs_.pairs_are_one) return perform_pair(rank, list, times);
      const double start = std::max(rank.clock, input(rank, a));
      if (start == kNever) return false;
      when = {start, start + costs_.of(a)};
      finish(rank, a, when.end);
      return true;
    }
    when = {rank.clock, rank.clock};
    const bool forward = a.kind == ActionKind::send_forward || a.kind == ActionKind::receive_forward;
    Direction& d = forward ? forward_ : backward_;
    if (is_send(a.kind)) {
      if (d.made[cell(a, a.stage)] == kNever || !wait_for_slot(rank, d, a)) return false;
      when = {rank.clock, rank.clock};
      d.sent[cell(a, a.stage)] = rank.clock;
      wake_next(a);
    } else if (is_receive(a.kind)) {
      d.posted[cell(a, a.stage)] = std::min(d.posted[cell(a, a.stage)], rank.clock);
      const int from = a.stage + (forward ? -1 : 1);
      if (from >= 0 && from < schedule_.placement.stages()) wake(rank_of(a, from));
    } else if (a.kind == ActionKind::free) {
      rank.whole[static_cast<size_t>(a.stage)] = kNever;
    } else {
      when.start = std::max(rank.clock, rank.collective);
      when.end = rank.collective = when.start + (a.kind == ActionKind::gather ? costs_.gather : costs_.reduce);
      if (costs_.collectives_hold_up) rank.clock = when.end;
      if (a.kind == ActionKind::gather) rank.whole[static_cast<size_t>(a.stage)] = when.end;
    }
    return true;
  }

  // Returns false if the send that has to complete first is not complete.
  bool wait_for_slot(Rank& rank, Direction& d, const Action& a) {
    std::vector<int>& sends = d.sends[static_cast<size_t>(a.pipe * schedule_.placement.stages() + a.stage)];
    const auto slots = static_cast<size_t>(costs_.slots);
    if (slots > 0 && sends.size() >= slots) {
      Action oldest = a;
      oldest.micro_batch = sends[sends.size() - slots];
      const int to = a.stage + (a.kind == ActionKind::send_forward ? 1 : -1);
      const double over = std::max(d.sent[cell(oldest, a.stage)], d.posted[cell(oldest, to)]) + costs_.hop;
      if (over == kNever) return false;
      rank.clock = std::max(rank.clock, over);
    }
    sends.push_back(a.micro_batch);
    return true;
  }

  // Runs a forward and the next backward action as one. Receives between the two are posted first, sends come later.
  bool perform_pair(Rank& rank, const std::vector<Action>& list, std::vector<Interval>& times) {
    size_t j = rank.next + 1;
    for (; j < list.size() && !is_compute(list[j].kind); ++j)
      if (is_receive(list[j].kind)) {
        double& posted =
            (list[j].kind == ActionKind::receive_forward ? forward_ : backward_).posted[cell(list[j], list[j].stage)];
        posted = std::min(posted, rank.clock);
      }
    FP_CHECK(j < list.size(), "{}: nothing is paired with action {}", schedule_.kind, rank.next);
    const Action &a = list[rank.next], &b = list[j];
    const double start = std::max({rank.clock, input(rank, a), input(rank, b)});
    if (start == kNever) return false;
    times[rank.next] = times[j] = {start, start + costs_.of(a) + costs_.of(b)};
    finish(rank, a, times[j].end);
    finish(rank, b, times[j].end);
    rank.pair_done = true;
    return true;
  }

  void finish(Rank& rank, const Action& a, double end) {
    rank.clock = end;
    if (a.kind == ActionKind::backward_weight) return;
    (a.kind == ActionKind::forward ? forward_ : backward_).made[cell(a, a.stage)] = end;
    wake_next(a);
  }

  const Schedule& schedule_;
  const Costs& costs_;
  const bool lowered_;
  Direction forward_, backward_;
  std::vector<Rank> ranks_;
  std::vector<int> awake_;
  std::vector<std::vector<Interval>> actions_;
};

// Number of boundary tensors that cross from rank to rank.
int64_t messages_of(const Schedule& s) {
  const Placement& p = s.placement;
  int64_t n = 0;
  for (const std::vector<Action>& list : s.ranks)
    for (const Action& a : list) {
      if (!is_compute(a.kind) || a.kind == ActionKind::backward_weight) continue;
      const int to = a.stage + (a.kind == ActionKind::forward ? 1 : -1);
      n += to >= 0 && to < p.stages() && p.rank_of(a.pipe, to) != p.rank_of(a.pipe, a.stage);
    }
  return n;
}

}  // namespace

int peak_chunks(const std::vector<Action>& list) {
  int live = 0, peak = 0;
  for (const Action& a : list) {
    if (a.kind == ActionKind::forward) peak = std::max(peak, ++live);
    if (a.kind == ActionKind::backward || a.kind == ActionKind::backward_weight) --live;
  }
  return peak;
}

Timing simulate(const Schedule& s, const Costs& costs) {
  Timing t;
  t.actions = SimulatedReplay(s, costs).run();
  double longest = 0;
  for (size_t r = 0; r < s.ranks.size(); ++r) {
    double work = 0, first = kNever, last = 0;
    for (size_t i = 0; i < s.ranks[r].size(); ++i) {
      t.makespan = std::max(t.makespan, t.actions[r][i].end);
      if (!is_compute(s.ranks[r][i].kind)) continue;
      work += costs.of(s.ranks[r][i]);
      first = std::min(first, t.actions[r][i].start);
      last = t.actions[r][i].end;
    }
    t.work = std::max(t.work, work);
    longest = std::max(longest, last - first);
    t.peak_chunks.push_back(peak_chunks(s.ranks[r]));
  }
  t.bubble = t.makespan > 0 ? 1 - t.work / t.makespan : 0;
  t.span_bubble = longest > 0 ? 1 - t.work / longest : 0;
  if (s.micro_batches > 0)
    t.messages_per_micro_batch = static_cast<double>(messages_of(s)) / static_cast<double>(s.micro_batches);
  return t;
}

}  // namespace fp
