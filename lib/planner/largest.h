// Finds how large a run can be on the memory there is: the longest sequence, and the largest model.
#pragma once

#include "planner/search.h"

namespace fp {

struct Largest {
  int64_t size = 0;       // tokens of a sequence, or layers of a model; 0: not even the smallest fits
  Estimate estimate;      // of the fastest plan that fits; valid if size > 0
  int64_t too_large = 0;  // the next size that was tried; 0: memory does not limit the size
  RankMemory beyond;      // memory at that size, with the savings that lack least; empty if no plan is legal
};

// Searches lengths from 1,024 tokens on, to 1/16 of the length. Of the keys that save memory (planner/savings.h), those
// that are open are chosen; all other keys must be written. Models with rotary positions take any length; others end at
// model.max_position. `limits`: to find the fastest plan of that length.
Largest longest_sequence(const RunSpec&, int ranks, const ClusterSpec&, PlanEstimator&, const SearchLimits& = {});

// The same for scaled_model() with the run's model, by layers. Models that are too small for the degrees are passed
// over.
Largest largest_model(const RunSpec&, int ranks, const ClusterSpec&, PlanEstimator&, const SearchLimits& = {});

// Returns a model like this one with `layers` layers, as the sizes of a published family differ: family, vocabulary,
// size of heads, heads for each kv head, and the ratios hidden / layers and ffn / hidden stay (4096 x 32 layers, 5120 x
// 40, 8192 x 64). The hidden size is rounded to whole kv heads, ffn to a multiple of up to 256.
ModelSection scaled_model(const ModelSection&, int64_t layers);

}  // namespace fp
