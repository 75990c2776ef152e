// Calls of layer norm and RMS norm.
#pragma once

#include "ops/calls/call.h"

namespace fp {

enum class Norm : uint8_t { layernorm, rmsnorm };

struct NormSpec {
  Norm kind = Norm::layernorm;
  double eps = 1e-5;
};

namespace calls {

// y = norm(sum) * gain + bias with sum = x + residual; residual and sum empty: norm(x). stats f32 [M,2] = (mean, 1/std)
// (mean 0 for rmsnorm). The normalised value is rounded to the compute type before the gain is applied, as in the
// published models. sum may alias x or residual.
struct Norm {
  Tensor y, sum = {}, stats, x, residual = {}, gain, bias = {};
  NormSpec spec;
};

// x is the tensor that was normalised (sum, if there was a residual). With Write::add, dx already holds the gradient of
// the residual branch.
struct NormBackwardInput {
  Tensor dx, dy, x, stats, gain;
  NormSpec spec;
  Write write;
};

// dgain sums dy times the normalised value as rounded in the forward pass. dbias empty: none.
struct NormBackwardWeight {
  Tensor dgain, dbias = {}, dy, x, stats;
  NormSpec spec;
  Write write;
};

}  // namespace calls
}  // namespace fp
