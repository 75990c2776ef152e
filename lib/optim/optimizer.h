// The optimizer step over flat buffers: global gradient norm, clipping, AdamW with decay on matrices only.
#pragma once

#include <span>

#include "config/run_spec.h"
#include "ops/ops.h"

namespace fp {

// A parameter's range of the flat buffers.
struct ParamRange {
  Segment segment;
  bool decay = false;
};

struct FlatState {
  Tensor param, m, v, grad;  // f32, same length
  Tensor weights;            // bf16 copy of param, or empty
};

// min(1, clip / (norm + 1e-6)); 1 when clip is 0.
double clip_scale(double norm, double clip);

// One AdamW update; step counts from 1.
void adamw_step(Ops&, const FlatState&, std::span<const ParamRange>, const OptimizerSection&, double lr, int64_t step,
                double grad_scale);

}  // namespace fp
