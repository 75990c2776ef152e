// Gradient bits: the typical quantization error of gradients, from which the planner chooses bits before a run.
#pragma once

#include "config/run_spec.h"
#include "ops/block_format.h"

namespace fp {

// Returns the error, as GradientGuard measures it (exec/gradient_guard.h), of elements drawn from a normal
// distribution.
double usual_error(const BlockFormat&);

// Returns the fewest bits with which gradients have a usual error that GradientGuard would accept within
// communication.max_gradient_error; 0 if there are none.
int64_t fewest_gradient_bits(const CommunicationSection&);

}  // namespace fp
