// How many samples and tokens a run sees: the batch-size ramp, and train.tokens as a number of steps.
#pragma once

#include <cstdint>

#include "config/run_spec.h"

namespace fp {

// Returns the number of samples in the optimizer step that starts after `consumed` samples: global_batch, or during a
// ramp ramp_start_batch + k * ramp_increment, where k grows at equal intervals of samples until global_batch is
// reached. An incomplete ramp counts as none.
int64_t global_batch_at(const TrainSection&, uint64_t consumed);

// Returns the number of samples of the first `steps` steps; 2^63 if there are more.
uint64_t samples_of_steps(const TrainSection&, int64_t steps);
// Returns the smallest number of steps, at least 1, that have `samples` samples or more.
int64_t steps_of_samples(const TrainSection&, uint64_t samples);

// Returns the tokens of a sample, padding included: a pair of answers (DPO) has two rows.
int64_t tokens_per_sample(const RunSpec&);
// Returns the smallest number of steps, at least 1, that train on `tokens` tokens or more.
int64_t steps_of_tokens(const RunSpec&, int64_t tokens);

}  // namespace fp
