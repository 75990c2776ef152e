// How long a schedule takes, and how much it holds: an exact replay with given times. No ranks needed.
#pragma once

#include <vector>

#include "schedule/schedule.h"

namespace fp {

struct StageCosts {
  double forward = 1, backward_input = 1, backward_weight = 1;
  double backward() const { return backward_input + backward_weight; }
};

// Times in any one unit.
struct Costs {
  StageCosts each;                   // of every stage ...
  std::vector<StageCosts> by_stage;  // ... unless given by stage
  double hop = 0;                    // latency of a message between ranks
  double gather = 0, reduce = 0;     // of a stage's weights or gradients; beside the computation ...
  bool collectives_hold_up = false;  // ... unless this is set
  int slots = 0;  // lowered: sends of a channel under way, after which the next waits for the oldest; 0: any number
  bool pairs_are_one = false;  // DualPipe's pairs need both inputs at their start and give both outputs at their end
  const StageCosts& of(int stage) const { return by_stage.empty() ? each : by_stage[static_cast<size_t>(stage)]; }
  // Of a compute action.
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
  std::vector<std::vector<Interval>> actions;  // as Schedule::ranks
  double makespan = 0;
  double work = 0;                      // of the rank that has most
  double bubble = 0;                    // 1 - work / makespan: all ranks end a step together
  double span_bubble = 0;               // 1 - work / the longest span of a rank, from its own first action to its last
  std::vector<int> peak_chunks;         // of each rank: live (stage, micro-batch) pairs, F to W
  double messages_per_micro_batch = 0;  // boundary tensors sent, forward and backward
};

// Of compute actions or of a lowered schedule. InternalError when it does not run through (verify() says why).
Timing simulate(const Schedule&, const Costs&);

}  // namespace fp
