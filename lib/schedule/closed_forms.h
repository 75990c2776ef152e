// What is known of a schedule without making it, with F = B = W = 1 and messages at once: near what simulate() says,
// for choosing which ones are worth a simulation.
#pragma once

#include "schedule/schedule.h"

namespace fp {

// Time of a step beside the work of a rank, in passes over all stages of a rank. (Shared reference of schedules; exact
// where the literature has a formula, within a few passes elsewhere.)
double idle_passes(const ScheduleRequest&);

// Activations of the rank that holds most, in those of all its stages for one micro-batch.
double held_micro_batches(const ScheduleRequest&);

}  // namespace fp
