// Compares the closed forms with replays.
#include <algorithm>
#include <catch2/catch.hpp>

#include "pipeline/closed_forms.h"
#include "pipeline/simulate.h"

using namespace fp;

TEST_CASE("closed forms agree with simulations", "[pipeline]") {
  for (const PipelineSchedule kind : schedule_kinds())
    for (const bool w_pass : {false, true})
      for (const int p : {2, 4, 8})
        for (const int rounds : {1, 2, 4, 8}) {
          const bool two_way = kind == PipelineSchedule::chimera || kind == PipelineSchedule::bitpipe;
          const bool dual = kind == PipelineSchedule::dualpipe || kind == PipelineSchedule::dualpipev;
          if ((w_pass && !two_way) || (rounds == 1 && dual)) continue;
          const ScheduleRequest q{.kind = kind, .ranks = p, .micro_batches = rounds * p, .w_pass = w_pass};
          const Schedule s = generate(q);
          const Timing t = simulate(s, {});
          const double v = s.placement.chunks, work = 3.0 * q.micro_batches;
          CAPTURE(name_of(kind), w_pass, p, q.micro_batches);
          const double slack = kind == PipelineSchedule::wave ? 0.15 * work : 1e-9;
          CHECK(std::abs(t.makespan / v - work - idle_passes(q)) <= slack);
          const double most = *std::max_element(t.peak_chunks.begin(), t.peak_chunks.end()) / v;
          CHECK(held_micro_batches(q) >= most - 1e-9);
          CHECK(held_micro_batches(q) <= 1.3 * most + 2);
        }
}
