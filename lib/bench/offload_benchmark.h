// Measures steps whose optimizer state is in host memory (memory.offload).
#pragma once

#include <array>

#include "config/run_spec.h"
#include "ops/copies.h"
#include "ops/counting.h"

namespace fp {

struct OffloadSteps {
  double seconds = 0;                   // of a step, the median
  double update_seconds = 0;            // of it, after the passes: norm of the gradients and update
  std::array<int64_t, kLanes> bytes{};  // of an update, by lane: copied, or read and written by ops of the host
};

// Trains on random tokens: `warmup` steps, then `steps` measured ones. `synchronous`: the host updates all state after
// the passes, without overlap (synchronous_schedule()). The spec's model must have its vocabulary.
OffloadSteps benchmark_offload(const RunSpec&, bool synchronous, int warmup, int steps, Ops&, CountingOps&);

}  // namespace fp
