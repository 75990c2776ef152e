// Closed forms for the bubble and the activation memory of a schedule, without generating it. They assume F = B = W = 1
// and messages that take no time. They are close to simulate(), and cheap enough to choose what to simulate.
#pragma once

#include "pipeline/schedule.h"

namespace fp {

// Idle time of a rank in a step, in units of one pass over all stages of the rank. Exact where the schedule's paper
// (named in orders.h) gives a formula, within a few passes elsewhere.
double idle_passes(const ScheduleRequest&);

// Peak activations of the rank that holds most, in units of one micro-batch's activations in all stages of the rank.
double held_micro_batches(const ScheduleRequest&);

}  // namespace fp
