// Seconds in which the ranks that share parameters exchange them and their gradients (exec/shard_exchange.h), in closed
// form.
#pragma once

#include "config/run_spec.h"
#include "planner/costs.h"
#include "sharding/mesh.h"

namespace fp {

// Bytes of a gradient and of a weight, as they are kept.
inline double gradient_bytes(const RunSpec& s) { return s.precision.gradients == DType::bf16 ? 2 : 4; }
inline double weight_bytes(const RunSpec& s) { return s.precision.compute == DType::bf16 ? 2 : 4; }

// All of these are for `parameters` parameters that the data group of rank 0 shares. Returns the seconds of a reduction
// of their gradients.
double reduce_seconds(const RunSpec&, const CostModel&, const Mesh&, double parameters);
// Returns the seconds of all gathers of a step. Where nodes keep the weights, only the first gather is from all ranks,
// and none is if updates send differences.
double gathers_seconds(const RunSpec&, const CostModel&, const Mesh&, double parameters, int gathers);
// Returns the seconds in which the ranks get the updated weights at the end of a step, whole or as differences.
double updated_weights_seconds(const RunSpec&, const CostModel&, const Mesh&, double parameters);

}  // namespace fp
