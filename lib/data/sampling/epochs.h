// The length of a run in terms of its data: train.epochs as a number of steps, and the text that says how often a run
// sees its datasets.
#pragma once

#include <string>

#include "config/run_spec.h"
#include "data/sampling/sampler.h"

namespace fp {

// Returns the spec with train.steps from train.epochs, which is then 0. Opens the data, without verifying files, only
// if train.epochs is given. Throws ConfigError if the number of steps is illegal with other keys.
RunSpec with_steps_of_data(RunSpec spec);

// Returns "2000 steps x 16 x 256 = 8.19M tokens, 4.3 epochs of data/local/books". Without `data` the epochs are
// omitted.
std::string describe_length(const RunSpec& spec, const TrainSampler* data);
// The same, from data that are opened without verifying files. Omits the epochs if they cannot be opened.
std::string describe_length(const RunSpec& spec);

}  // namespace fp
