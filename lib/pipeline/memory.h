// Peak activation memory of a schedule, computed from the bytes that each stage holds for one micro-batch.
#pragma once

#include <array>
#include <span>

#include "pipeline/lower.h"

namespace fp {

struct StageBytes {
  int64_t forward = 0;               // kept from F to B or D
  int64_t backward = 0;              // kept from B to W; replaces `forward` while B runs
  std::array<int64_t, 4> working{};  // temporary memory while F, B, W or D runs, without kept tensors and messages
  int64_t boundary = 0;              // the stage's input, or the gradient of it, as a message
  int64_t offloaded = 0;             // kept in host memory from F to B or D
  int64_t offloaded_working = 0;     // temporary host memory while any of these runs
};

// Returns the peak activation bytes of each rank for a lowered schedule: kept tensors, working memory and messages. A
// received message counts from receive_* to the end of the action that consumes it; an output counts from the action
// that produces it to the end of the one that consumes it on the same rank, or until its send has been waited for. The
// result depends only on the order of the lists, so no timing exceeds it.
std::vector<int64_t> peak_bytes(const Schedule&, const LoweringOptions&, const std::vector<StageBytes>& stages);
// Returns the peak bytes in host memory of each rank.
std::vector<int64_t> peak_offloaded_bytes(const Schedule&, const LoweringOptions&, std::span<const StageBytes> stages);

}  // namespace fp
