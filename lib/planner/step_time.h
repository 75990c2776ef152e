// How long a step takes on a cluster.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/mesh.h"
#include "plan/pipeline.h"
#include "planner/estimate.h"
#include "planner/part_costs.h"

namespace fp {

// Of a resolved spec; its parts by recompute policy come from `costs_of`.
using CostsOf = std::function<const ModelCosts&(const std::string& recompute)>;

// Of each pipeline stage.
std::vector<PartCosts> stage_costs(const RunSpec&, const PipelinePlan&, const CostsOf&);

// What the simulator is given: stages, messages, gathers and sums.
Costs schedule_costs(const RunSpec&, const PipelinePlan&, const std::vector<PartCosts>& stages, const Mesh&,
                     const CostModel&);

// Played: one rank's step where there is no pipeline, else the schedule with the stages' times. `micro_batches`: of a
// data-parallel rank.
StepTime step_time(const RunSpec&, const PipelinePlan&, const Mesh&, const CostModel&, const CostsOf&, CountingOps&,
                   int micro_batches);

// Not played: sums of the parts' times, and what is known of the schedule's bubble.
StepTime quick_step_time(const RunSpec&, const PipelinePlan&, const Mesh&, const CostModel&, const CostsOf&,
                         int micro_batches);

}  // namespace fp
