// The dry run: the same model and executor code on counting Ops and an arena without memory. What a step needs and
// does, before anything is allocated.
#pragma once

#include "config/run_spec.h"
#include "ops/counting.h"
#include "tensor/arena.h"

namespace fp {

struct Prediction {
  size_t arena_bytes = 0;   // what the run's arena needs, exactly
  BytesByClass by_class{};  // at the moment of the peak
  Counts micro_batch;       // forward and backward of one micro-batch, recompute included
  Counts update;            // gradient norm and optimizer step
  int64_t parameters = 0;
};

// `model` must have its vocabulary; counting is reset.
Prediction dry_run(const RunSpec&, const ModelSection& model, CountingOps&);

// ConfigError when the machine has not as much memory as this needs: said before the run has touched any.
void require_fit(const Prediction&);

// A page for people: memory by class, FLOPs of a step.
std::string describe(const Prediction&, const RunSpec&);

}  // namespace fp
