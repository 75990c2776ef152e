#include "pipeline/lower.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "base/error.h"
#include "pipeline/flow.h"
#include "pipeline/placing.h"

namespace fp {
namespace {

// Starts the compute actions of all ranks in the order of their times. Over all ranks, everything that an action waits
// for is written before it, so no lowered schedule deadlocks.
class LoweringReplay {
 public:
  LoweringReplay(const Schedule& s, const Timing& timing)
      : schedule_(&s),
        timing_(&timing),
        flow_(s),
        produced_(static_cast<size_t>(flow_.outputs())),
        next_(s.ranks.size()),
        running_(s.ranks.size()) {}

  Schedule run(const Placed& placed) {
    lowered_ = {schedule_->kind, schedule_->placement, schedule_->micro_batches, {}};
    lowered_.ranks.resize(next_.size());
    for (size_t r = 0; r < next_.size(); ++r) offer(r);
    while (!startable_.empty()) {
      const auto [time, r] = startable_.top();
      startable_.pop();
      send_until(time);
      start(r, placed);
    }
    for (size_t r = 0; r < next_.size(); ++r) {
      FP_CHECK(next_[r] == schedule_->ranks[r].size(), "{}: rank {} waits for ever", schedule_->kind, r);
      append(r, placed[r].before.back());
    }
    return std::move(lowered_);
  }

 private:
  using Start = std::pair<double, size_t>;          // time, rank
  using Message = std::tuple<double, size_t, int>;  // time, index of the message, output
  template <class T>
  using Earliest = std::priority_queue<T, std::vector<T>, std::greater<T>>;

  // Makes the rank's next action startable if its input has been produced.
  void offer(size_t r) {
    const std::vector<Action>& list = schedule_->ranks[r];
    const size_t i = next_[r];
    if (i == list.size()) return;
    const int input = flow_.input_of(list[i]);
    if (input >= 0 && !produced_[static_cast<size_t>(input)]) return;
    const bool second_of_pair = i > 0 && list[i - 1].paired_with_next;
    startable_.push({timing_->actions[r][second_of_pair ? i - 1 : i].start, r});
  }

  void start(size_t r, const Placed& placed) {
    const size_t i = next_[r]++;
    const std::vector<Action>& list = schedule_->ranks[r];
    append(r, placed[r].before[i]);
    const bool second_of_pair = i > 0 && list[i - 1].paired_with_next;
    if (!second_of_pair) running_[r].at = lowered_.ranks[r].size();
    running_[r].end = timing_->actions[r][i].end;
    lowered_.ranks[r].push_back(list[i]);
    append(r, placed[r].after[i]);
    const int output = flow_.output_of(list[i]);
    if (output >= 0) produced_[static_cast<size_t>(output)] = true;
    offer(r);
    if (!flow_.crosses(output)) return;
    messages_.push({timing_->actions[r][list[i].paired_with_next ? i + 1 : i].end, sent_++, output});
    const auto consumer = static_cast<size_t>(flow_.consumer(output));
    const std::vector<Action>& consumers = schedule_->ranks[consumer];
    if (next_[consumer] < consumers.size() && flow_.input_of(consumers[next_[consumer]]) == output) offer(consumer);
  }

  void send_until(double time) {
    while (!messages_.empty() && std::get<0>(messages_.top()) <= time) {
      const auto [begin, number, output] = messages_.top();
      messages_.pop();
      append(static_cast<size_t>(flow_.producer(output)), {flow_.send(output)});
      receive(static_cast<size_t>(flow_.consumer(output)), begin, output);
    }
  }

  // Posted before the action that runs meanwhile: posted after it, the transfer could not overlap it.
  void receive(size_t r, double begin, int output) {
    if (running_[r].end <= begin) return append(r, {flow_.receive(output)});
    std::vector<Action>& list = lowered_.ranks[r];
    list.insert(list.begin() + static_cast<ptrdiff_t>(running_[r].at++), flow_.receive(output));
  }

  void append(size_t r, const std::vector<Action>& actions) {
    lowered_.ranks[r].insert(lowered_.ranks[r].end(), actions.begin(), actions.end());
  }

  const Schedule* schedule_;
  const Timing* timing_;
  Flow flow_;
  std::vector<bool> produced_;  // by output
  std::vector<size_t> next_;    // by rank
  struct Running {
    size_t at = 0;   // the rank's last compute action, or pair, in its lowered list
    double end = 0;  // when it ends
  };
  std::vector<Running> running_;
  Earliest<Start> startable_;
  Earliest<Message> messages_;
  size_t sent_ = 0;
  Schedule lowered_;
};

}  // namespace

bool is_lowered(const Schedule& s) {
  const auto is_added = [](const Action& a) { return !is_compute(a.kind); };
  return std::any_of(s.ranks.begin(), s.ranks.end(),
                     [&](const auto& list) { return std::any_of(list.begin(), list.end(), is_added); });
}

bool trains(const Schedule& s) {
  const auto is_backward = [](const Action& a) { return is_compute(a.kind) && a.kind != ActionKind::forward; };
  return std::any_of(s.ranks.begin(), s.ranks.end(),
                     [&](const auto& list) { return std::any_of(list.begin(), list.end(), is_backward); });
}

Schedule lower(const Schedule& schedule, const LoweringOptions& options) {
  FP_CHECK(options.sends_in_flight > 0 && options.resident > 0 && options.reduce_every >= 0,
           "sends_in_flight {}, resident {}, reduce_every {}", options.sends_in_flight, options.resident,
           options.reduce_every);
  FP_CHECK(!is_lowered(schedule), "{} is lowered already", schedule.kind);
  Schedule computed = schedule;
  if (!options.costs.pairs_are_one)
    for (auto& list : computed.ranks)
      for (Action& a : list) a.paired_with_next = false;
  const Timing timing = simulate(computed, options.costs);
  Placed placed(computed.ranks.begin(), computed.ranks.end());
  if (options.gather) place_gathers(computed, options, placed);
  place_reduces(computed, timing, options.reduce_every, placed);
  return LoweringReplay(computed, timing).run(placed);
}

}  // namespace fp
