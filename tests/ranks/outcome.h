// What two runs left, compared.
#pragma once

#include <filesystem>

#include "checkpoint/checkpoint.h"

namespace fp::testing {

// Largest difference of the parameters of two checkpoints, each relative to the largest value of its tensor.
double worst_parameter(const Checkpoint& a, const Checkpoint& b);
// Of the checkpoints of two runs after so many steps.
double worst_parameter(const std::filesystem::path& run_a, const std::filesystem::path& run_b, int steps);

}  // namespace fp::testing
