// Finds the longest sequence that a run can train on.
#pragma once

#include "planner/search.h"

namespace fp {

struct Longest {
  int64_t tokens = 0;    // of a sequence; 0: not even the shortest fits
  Estimate estimate;     // of the plan with the fewest savings that fits; valid if tokens > 0
  int64_t too_long = 0;  // the next length that was tried; 0: memory does not limit the length
  RankMemory beyond;     // memory at that length, with all savings; empty if no plan is legal
};

// Searches lengths from 1,024 tokens on, to 1/16 of the length. Of the keys that save memory (planner/savings.h), those
// that are open are chosen; all other keys must be written. Models with rotary positions take any length; others end at
// model.max_position.
Longest longest_sequence(const RunSpec&, int ranks, const ClusterSpec&, PlanEstimator&);

}  // namespace fp
