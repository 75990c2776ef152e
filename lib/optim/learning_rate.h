// The learning rate as a pure function of the step.
#pragma once

#include <cstdint>

#include "config/run_spec.h"

namespace fp {

// Returns the learning rate of optimizer step `step` (0-based) in a run of `steps`.
// Warm-up: lr * (step + 1) / warmup_steps. Then, with x the completed fraction of the decay and m = min_lr_ratio * lr:
//   cosine  m + (lr - m) * (1 + cos(pi x)) / 2        (from the end of warm-up to decay_steps, or the last step)
//   linear  lr + (m - lr) * x                         (same span)
//   constant lr
//   wsd     lr until the last decay_steps (or 20%) of the run, then m + (lr - m) * shape(x), shape one of
//           linear 1-x, cosine (1+cos(pi x))/2, exponential 2*0.5^x - 1, minus_sqrt 1-sqrt(x)
double learning_rate(const ScheduleSection&, double lr, int64_t step, int64_t steps);

}  // namespace fp
