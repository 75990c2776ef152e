// Runs pipeline schedules with the real executor and stages that only sleep, which works on any machine. The time by
// which a step exceeds its simulation is the executor's overhead.
#pragma once

#include <vector>

#include "comm/comm.h"
#include "pipeline/simulate.h"

namespace fp {

struct ScheduleTimes {
  Timing simulated;              // of the compute actions, in units
  std::vector<Timing> executed;  // of each round, from a barrier of all ranks on, in units; `work` is the nominal one
  double late_units = 0;         // mean time that a pass slept longer than requested, which is due to the machine
  const Timing& median() const;  // the round with the median makespan
};

// Runs a schedule of compute actions as a training step runs it, `rounds` times after a warm-up round. Every rank must
// call it, in a world of as many ranks as the schedule has; each gets the times of all. `unit_seconds` is the duration
// of one unit of `costs`.
ScheduleTimes time_schedule(World&, const Schedule&, const Costs&, double unit_seconds, int rounds);

}  // namespace fp
