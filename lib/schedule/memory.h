// What a schedule holds at its worst, in bytes, out of what one stage holds for one micro-batch.
#pragma once

#include "schedule/lower.h"

namespace fp {

struct StageBytes {
  int64_t forward = 0;   // kept from F to B or D
  int64_t backward = 0;  // kept from B to W
  int64_t working = 0;   // beside what is kept, while an action of the stage runs: the most of F, B, W, D
  int64_t boundary = 0;  // its input, as a message
};

// Activations of each rank at its peak: what is kept, messages waiting and under way, working memory. Of a lowered
// schedule; an exact bound where every stage holds what `stages` says.
std::vector<int64_t> peak_bytes(const Schedule&, const LoweringOptions&, const std::vector<StageBytes>& stages);

}  // namespace fp
