// GradientOutlier: makes a channel of a parameter's gradients larger on purpose, as a channel of large activations
// does, to measure what quantized sums lose by it. AdamW divides by the size of each gradient, so without quantization
// the training stays as it is.
#pragma once

#include <string>

#include "model/env.h"

namespace fp {

struct GradientOutlier {
  std::string parameter;  // with two dimensions, not cut along the second one
  int64_t channel = 0;    // along the second dimension
  double factor = 1;
};

// Throws ConfigError if the model has no such parameter or channel, or if tensor-parallel ranks divide the parameter
// along its second dimension.
void check(const GradientOutlier&, const ParamTable&);

// Multiplies the gradients of the channel by the factor if `unit` has the parameter; `gradients` are those of the unit.
void apply(const GradientOutlier&, const ModelEnv&, const ParamUnit&, const Tensor& gradients);

}  // namespace fp
