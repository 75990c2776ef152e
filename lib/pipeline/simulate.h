// Replays a schedule with given times: how long it takes and how many activations it holds. Needs no ranks.
#pragma once

#include <vector>

#include "pipeline/schedule.h"

namespace fp {

struct StageCosts {
  double forward = 1, backward_input = 1, backward_weight = 1;
  double backward() const { return backward_input + backward_weight; }
};

// Times in any one unit.
struct Costs {
  StageCosts each;                   // of every stage, unless by_stage is given
  std::vector<StageCosts> by_stage;  // empty: all stages cost `each`
  double hop = 0;                    // latency of a message between ranks
  double gather = 0, reduce = 0;     // of a stage's weights or gradients; overlaps computation ...
  bool collectives_hold_up = false;  // ... unless this is set
  int slots = 0;  // lowered schedules: sends in flight per channel before the next waits for the oldest; 0: any number
  bool pairs_are_one = false;  // DualPipe's pairs run as one: both inputs at the start, both outputs at the end
  const StageCosts& of(int stage) const { return by_stage.empty() ? each : by_stage[static_cast<size_t>(stage)]; }
  // Returns the time of a compute action.
  double of(const Action& a) const {
    const StageCosts& c = of(a.stage);
    if (a.kind == ActionKind::forward) return c.forward;
    if (a.kind == ActionKind::backward_input) return c.backward_input;
    return a.kind == ActionKind::backward_weight ? c.backward_weight : c.backward();
  }
};

struct Interval {
  double start = 0, end = 0;
};

struct Timing {
  std::vector<std::vector<Interval>> actions;  // indexed as Schedule::ranks
  double makespan = 0;
  double work = 0;                      // compute time of the busiest rank
  double bubble = 0;                    // 1 - work / makespan: all ranks end a step together
  double span_bubble = 0;               // 1 - work / the longest span of a rank, from its own first action to its last
  std::vector<int> peak_chunks;         // per rank: peak number of live (stage, micro-batch) pairs, F to W
  double messages_per_micro_batch = 0;  // boundary tensors sent, forward and backward
};

// Replays a schedule of compute actions or a lowered one. Throws InternalError if it deadlocks (verify() reports why).
Timing simulate(const Schedule&, const Costs&);

}  // namespace fp
