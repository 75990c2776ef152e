// What a schedule holds at its worst, in bytes, out of what one stage holds for one micro-batch.
#pragma once

#include <array>

#include "schedule/lower.h"

namespace fp {

struct StageBytes {
  int64_t forward = 0;               // kept from F to B or D
  int64_t backward = 0;              // kept from B to W; while B runs it takes the place of `forward`
  std::array<int64_t, 4> working{};  // beside what is kept and messages, while F, B, W or D of the stage runs
  int64_t boundary = 0;              // its input, or the gradient of it, as a message
};

// Activations of each rank at its peak, of a lowered schedule: what is kept, working memory, and messages: received
// ones from receive_* to the end of the action that takes them, outputs from the action that makes them to the end of
// the one that takes them, on the same rank, or until their send is waited for. The order of the lists alone decides,
// so no timing exceeds it.
std::vector<int64_t> peak_bytes(const Schedule&, const LoweringOptions&, const std::vector<StageBytes>& stages);

}  // namespace fp
