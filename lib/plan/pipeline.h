// The pipeline of a run: how its model is cut into stages, where they are, and the schedules of its steps.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/stages.h"
#include "schedule/lower.h"

namespace fp {

struct PipelinePlan {
  ScheduleRequest request;            // micro_batches aside
  std::optional<Schedule> from_file;  // in place of what the request would generate
  Placement placement;
  std::vector<StagePart> stages;
  LoweringOptions lowering;
  std::shared_ptr<const std::map<int, Schedule>> ready = {};  // steps as step() would make them, by micro-batches

  // What ranks do in a step and in an evaluation, lowered and verified. ConfigError where the schedule cannot be had
  // for so many micro-batches, with the legal numbers.
  Schedule step(int micro_batches) const;
  // Makes these steps once for all copies of the plan, whose other members stay as they are.
  void prepare(const std::vector<int>& micro_batches);
  Schedule evaluation(int micro_batches) const;
};

// For people: the layers of each stage and the bubble of a step, by FLOPs; empty without a pipeline.
std::string describe(const PipelinePlan&, int micro_batches);

// Of a run without a pipeline: a single stage. `reduces_often`: gradients are summed for every micro-batch.
PipelinePlan single_stage(int64_t layers, bool reduces_often);

// What a section asks for, micro-batches aside.
ScheduleRequest schedule_request(const PipelineSection&);

// Where a section puts its stages. ConfigError as placement_of().
Placement place_stages(const PipelineSection&);

// Of a resolved spec with its vocabulary. ConfigError with key, value and what would be legal.
PipelinePlan plan_pipeline(const RunSpec&);

}  // namespace fp
