// Verifies a schedule before it runs: every pass occurs once and in order, no deadlock whatever the times, channel
// order, gathered weights and their number, completeness of gradient reductions.
#pragma once

#include <string>
#include <vector>

#include "pipeline/lower.h"

namespace fp {

// Return one line per error, such as "rank 2, action 17 (3F0): ..."; empty if the schedule is valid. verify() takes a
// schedule of compute actions only, verify_lowered() one that was lowered with these options.
std::vector<std::string> verify(const Schedule&);
std::vector<std::string> verify_lowered(const Schedule&, const LoweringOptions&);

}  // namespace fp
