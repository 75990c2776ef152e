// A quick estimate of the time that Muon's update of matrices takes beside that of the elements.
#pragma once

#include "config/run_spec.h"
#include "ops/counting.h"
#include "planner/costs.h"
#include "sharding/mesh.h"

namespace fp {

// Returns the seconds in which a pipeline rank with this number of layers has its matrices orthogonalized: products,
// copies and exchange. 0 with other optimizers.
double matrix_update_seconds(const RunSpec&, const Mesh&, const CostModel&, CountingOps&, int pipeline_rank,
                             int64_t layers);

}  // namespace fp
