// The optimizer step over flat buffers: clipping by the gradient norm, and AdamW with weight decay on matrices only.
#pragma once

#include <span>

#include "config/run_spec.h"
#include "ops/ops.h"

namespace fp {

// The range of a parameter in the flat buffers.
struct ParamRange {
  Segment segment;
  bool decay = false;
};

struct FlatState {
  Tensor param, m, v, grad;  // f32, same length
  Tensor weights;            // bf16 copy of param, or empty
};

// Returns the factor on the gradients: min(1, clip / (norm + 1e-6)); 1 when clip is 0.
double clip_scale(double norm, double clip);

// Runs one AdamW update; step counts from 1. `sums.bits` (i32 [ranges,4,2], or empty) receives the bit sums of each
// range, `sums.gradient` (f32 [ranges,2], or empty) rows that add up to the gradient sums of all ranges.
void adamw_step(Ops&, const FlatState&, std::span<const ParamRange>, const OptimizerSection&, double lr, int64_t step,
                double grad_scale, const AdamWSums& sums = {});

}  // namespace fp
