// What each stage of a pipeline holds for one micro-batch, found by playing it without memory: for schedule bounds
// (schedule/memory.h) and for choosing between plans.
#pragma once

#include <vector>

#include "config/run_spec.h"
#include "ops/counting.h"
#include "plan/mesh.h"
#include "plan/pipeline.h"
#include "schedule/memory.h"

namespace fp {

// Of the ranks with these tensor and sequence indices. The spec must be resolved, with its vocabulary.
std::vector<StageBytes> measure_stages(const RunSpec&, const PipelinePlan&, CountingOps&, const Mesh&,
                                       const Coordinate&);

}  // namespace fp
