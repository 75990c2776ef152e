// Benchmark of schedules whose stages sleep: checks what is measured, not how long it takes.
#include <catch2/catch.hpp>

#include "bench/schedule_benchmark.h"
#include "comm/backends.h"

using namespace fp;

TEST_CASE("a schedule of sleeping stages runs all passes in order with the requested times", "[mesh]") {
  for (const PipelineSchedule kind :
       {PipelineSchedule::one_f_one_b, PipelineSchedule::zb_v, PipelineSchedule::dualpipe, PipelineSchedule::bitpipe}) {
    CAPTURE(name_of(kind));
    const Schedule s = generate({.kind = kind, .ranks = 4, .micro_batches = 8});
    Costs costs;
    for (int stage = 0; stage < s.placement.stages(); ++stage) costs.by_stage.push_back({1.0 + stage % 2, 1, 0.5});
    std::vector<ScheduleTimes> of_ranks(4);
    run_thread_ranks(4, [&](World& world) {
      of_ranks[static_cast<size_t>(world.rank())] = time_schedule(world, s, costs, 2e-4, 2);
    });
    const ScheduleTimes& times = of_ranks[0];
    CHECK(times.simulated.makespan == simulate(s, costs).makespan);
    CHECK(times.late_units > 0);
    REQUIRE(times.executed.size() == 2);
    for (size_t round = 0; round < 2; ++round) {
      const Timing& t = times.executed[round];
      bool in_order = true, long_enough = true, known_to_all = true;
      for (size_t r = 0; r < 4; ++r)
        for (size_t i = 0; i < s.ranks[r].size(); ++i) {
          const Interval& when = t.actions[r][i];
          in_order &= when.start >= (i > 0 ? t.actions[r][i - 1].end : 0) && when.end <= t.makespan;
          long_enough &= when.end - when.start >= costs.of(s.ranks[r][i]) * (1 - 1e-6);
          for (const ScheduleTimes& other : of_ranks)
            known_to_all &= other.executed[round].actions[r][i].start == when.start;
        }
      CHECK(in_order);
      CHECK(long_enough);
      CHECK(known_to_all);
      CHECK(t.bubble == Approx(1 - t.work / t.makespan));
      CHECK(t.span_bubble <= t.bubble);
    }
    const double least = std::min(times.executed[0].makespan, times.executed[1].makespan);
    CHECK(times.median().makespan >= least);
  }
}
