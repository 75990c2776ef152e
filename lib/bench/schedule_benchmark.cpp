#include "bench/schedule_benchmark.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "exec/stage_work.h"
#include "pipeline/verify.h"

namespace fp {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int64_t kMessage = 1024;  // f32 elements

// Stages that sleep instead of computing. Each pass sleeps from its own start, so that a late one does not shorten the
// next.
class SleepingStages final : public StageWork {
 public:
  SleepingStages(const Costs& costs, Seconds unit, int stages, Arena& arena)
      : costs_(&costs), unit_(unit), stages_(stages), arena_(&arena) {}

  void begin_round() {
    passes_.clear();
    begin_ = Clock::now();
  }
  // Time since begin_round(), in units.
  double now() const { return (Clock::now() - begin_) / unit_; }
  const std::vector<Interval>& passes() const { return passes_; }

  ArenaTensor allocate_input(const Action&) override { return message(); }
  ArenaTensor forward(const Action& a, OffloadedTensor) override {
    sleep(a);
    return a.stage + 1 < stages_ ? message() : ArenaTensor();
  }
  ArenaTensor backward_input(const Action& a, ArenaTensor) override {
    sleep(a);
    return a.stage > 0 ? message() : ArenaTensor();
  }
  void backward_weight(const Action& a, bool) override { sleep(a); }
  ArenaTensor backward(const Action& a, ArenaTensor dy, bool) override { return backward_input(a, std::move(dy)); }
  void gather(int) override {}
  void free(int) override {}
  void reduce(int) override {}

 private:
  ArenaTensor message() { return arena_->alloc(DType::f32, {kMessage}); }
  void sleep(const Action& a) {
    const double start = now();
    std::this_thread::sleep_for(costs_->of(a) * unit_);
    passes_.push_back({start, now()});
  }

  const Costs* costs_;
  Seconds unit_;
  int stages_;
  Arena* arena_;
  Clock::time_point begin_;
  std::vector<Interval> passes_;
};

// Collects the passes of all ranks and the time when the last rank finished.
Timing exchange_times(const Schedule& s, const Timing& simulated, const std::vector<Interval>& mine, double end,
                      Group& ranks) {
  std::vector<double> times;
  for (size_t r = 0; r < s.ranks.size(); ++r)
    for (size_t i = 0; i < s.ranks[r].size(); ++i) {
      const Interval when = static_cast<int>(r) == ranks.rank() ? mine[i] : Interval{};
      times.insert(times.end(), {when.start, when.end});
    }
  ranks.all_reduce(times);
  ranks.all_reduce(std::span(&end, 1), Reduction::max);
  Timing t = simulated;
  double longest = 0;
  auto next = times.begin();
  for (std::vector<Interval>& list : t.actions) {
    for (Interval& when : list) {
      when.start = *next++;
      when.end = *next++;
    }
    longest = std::max(longest, list.back().end - list.front().start);
  }
  t.makespan = end;
  t.bubble = 1 - t.work / t.makespan;
  t.span_bubble = 1 - t.work / longest;
  return t;
}

double mean_lateness(const Schedule& s, const Costs& costs, const std::vector<Timing>& rounds) {
  double sum = 0;
  size_t passes = 0;
  for (const Timing& t : rounds)
    for (size_t r = 0; r < s.ranks.size(); ++r)
      for (size_t i = 0; i < s.ranks[r].size(); ++i, ++passes)
        sum += t.actions[r][i].end - t.actions[r][i].start - costs.of(s.ranks[r][i]);
  return sum / static_cast<double>(passes);
}

}  // namespace

const Timing& ScheduleTimes::median() const {
  std::vector<const Timing*> rounds;
  for (const Timing& t : executed) rounds.push_back(&t);
  std::ranges::sort(rounds, {}, &Timing::makespan);
  return *rounds[rounds.size() / 2];
}

ScheduleTimes time_schedule(World& world, const Schedule& schedule, const Costs& costs, double unit_seconds,
                            int rounds) {
  const Placement& p = schedule.placement;
  LoweringOptions lowering;
  lowering.costs = costs;
  const Schedule lowered = lower(schedule, lowering);
  const std::vector<std::string> problems = verify_lowered(lowered, lowering);
  FP_CHECK(problems.empty(), "invalid schedule {}: {}", schedule.kind, problems.front());

  prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds that the kernel may let this thread oversleep; usually 50 times that
  const Groups groups = make_groups(world, Mesh(p.ranks, 1, 1, 1, world.size(), p.two_way));
  StageLinks links(p, groups, {.in_flight = lowering.sends_in_flight});
  // An action creates at most one message.
  const size_t bytes = lowered.ranks[static_cast<size_t>(world.rank())].size() * kMessage * sizeof(float);
  Arena arena(host_memory(bytes, false), bytes);
  SleepingStages stages(costs, Seconds(unit_seconds), p.stages(), arena);

  ScheduleTimes times{simulate(schedule, costs), {}, 0};
  for (int round = -1; round < rounds; ++round) {
    groups.world->barrier();
    stages.begin_round();
    run_actions(lowered, world.rank(), stages, links);
    const double end = stages.now();
    Timing t = exchange_times(schedule, times.simulated, stages.passes(), end, *groups.world);
    if (round >= 0) times.executed.push_back(std::move(t));
  }
  times.late_units = mean_lateness(schedule, costs, times.executed);
  return times;
}

}  // namespace fp
