// Pipeline schedules as the executor runs them, with stages that only sleep: what they take above their simulated time
// is the executor's own, and shows on any machine.
#pragma once

#include <vector>

#include "comm/comm.h"
#include "schedule/simulate.h"

namespace fp {

struct ScheduleTimes {
  Timing simulated;              // of the compute actions, in units
  std::vector<Timing> executed;  // of each round: from where all ranks meet, in units; `work` is what was asked for
  double late_units = 0;         // how much longer than asked a pass slept, on average: the machine's part
  const Timing& median() const;  // the round in the middle by makespan
};

// Runs a schedule of compute actions as a training step runs it, `rounds` times, after one that does not count. Every
// rank of a world of as many ranks as the schedule has calls it, and gets the times of all.
ScheduleTimes time_schedule(World&, const Schedule&, const Costs&, double unit_seconds, int rounds);

}  // namespace fp
