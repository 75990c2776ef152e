// Estimates the time of a step on a cluster.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/estimate.h"
#include "planner/part_costs.h"
#include "sharding/mesh.h"
#include "sharding/pipeline_plan.h"

namespace fp {

// Returns the part costs of a run under a recompute policy.
using CostsOf = std::function<const ModelCosts&(Recompute)>;

// Returns the costs of each pipeline stage, without those of messages. Here and below, the spec must be resolved.
std::vector<PartCosts> stage_costs(const RunSpec&, const PipelinePlan&, const CostsOf&);

// Returns the times for simulate(): of stages, messages, gathers and reductions.
Costs schedule_costs(const RunSpec&, const PipelinePlan&, const std::vector<PartCosts>& stages, const Mesh&,
                     const CostModel&);

// Returns the exact time: by a dry run of one rank's step or, with a pipeline, by a replay of the schedule with the
// times of the stages. `micro_batches`: per data-parallel rank.
StepTime step_time(const RunSpec&, const PipelinePlan&, const Mesh&, const CostModel&, const CostsOf&, CountingOps&,
                   int micro_batches);

// Returns a quick estimate: sums of the parts' times and, for long schedules, the closed form of the bubble.
StepTime quick_step_time(const RunSpec&, const PipelinePlan&, const Mesh&, const CostModel&, const CostsOf&,
                         CountingOps&, int micro_batches);

}  // namespace fp
