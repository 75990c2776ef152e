// Proof that a schedule is right, before it runs (shared reference, "simulator invariants"): coverage, order, absence
// of deadlock whatever the times, channel order, residence of weights, completeness of gradient sums, memory.
#pragma once

#include <string>
#include <vector>

#include "schedule/lower.h"

namespace fp {

// What is wrong, a line each: "rank 2, action 17 (3F0): ..."; empty: the schedule is right. Of compute actions only, or
// lowered with these options.
std::vector<std::string> verify(const Schedule&);
std::vector<std::string> verify_lowered(const Schedule&, const LoweringOptions&);

}  // namespace fp
