// Measures by a dry run the memory that each pipeline stage holds for one micro-batch, for the memory bounds of
// schedules (pipeline/memory.h) and for choosing between plans.
#pragma once

#include <vector>

#include "config/run_spec.h"
#include "ops/counting.h"
#include "pipeline/memory.h"
#include "sharding/mesh.h"
#include "sharding/pipeline_plan.h"

namespace fp {

// Measures the ranks with these tensor and sequence indices. The spec must be resolved, with its vocabulary.
std::vector<StageBytes> measure_stages(const RunSpec&, const PipelinePlan&, CountingOps&, const Mesh&,
                                       const Coordinate&);

}  // namespace fp
