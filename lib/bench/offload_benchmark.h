// Measures steps whose optimizer state is in host memory (memory.offload).
#pragma once

#include <array>
#include <span>
#include <vector>

#include "config/run_spec.h"
#include "ops/copies.h"
#include "ops/counting.h"

namespace fp {

struct OffloadVariant {
  RunSpec spec;              // resolved, with model.vocab set
  bool synchronous = false;  // the host updates all state after the passes, without overlap (synchronous_schedule())
  Ops* ops = nullptr;
};

struct OffloadSteps {
  double seconds = 0;                   // of a step, the median
  double update_seconds = 0;            // part of `seconds`, after the passes: gradient norm and update
  std::array<int64_t, kLanes> bytes{};  // of an update, by lane: copied, or read and written by ops of the host
};

// Trains each variant on random tokens: `warmup` steps, then `steps` measured ones. The variants take turns, so that a
// machine that slows down affects all of them.
std::vector<OffloadSteps> benchmark_offload(std::span<const OffloadVariant>, int warmup, int steps, CountingOps&);

}  // namespace fp
