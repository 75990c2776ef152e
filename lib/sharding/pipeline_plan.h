// The pipeline of a run: the stages of its model, their placement on ranks, and the schedules of its steps.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/lower.h"
#include "sharding/stages.h"

namespace fp {

struct PipelinePlan {
  ScheduleRequest request;            // without micro_batches
  std::optional<Schedule> from_file;  // used instead of `request`
  Placement placement;
  std::vector<StagePart> stages;
  LoweringOptions lowering;
  std::shared_ptr<const std::map<int, Schedule>> ready = {};  // results of step(), by micro-batches

  // Returns the lowered and verified schedule of a step. Throws ConfigError if the schedule does not support this
  // number of micro-batches, with the legal numbers.
  Schedule step(int micro_batches) const;
  // Computes the schedules of these steps once, for this plan and its copies, whose other members must not change.
  void prepare(const std::vector<int>& micro_batches);
  // Returns the lowered forward-only schedule of an evaluation.
  Schedule evaluation(int micro_batches) const;
};

// Returns text for people: the layers of each stage and the bubble of a step, by FLOPs; empty for a single stage.
std::string describe(const PipelinePlan&, int micro_batches);

// Returns the plan of a run in a single stage. `reduces_often`: gradients are reduced for every micro-batch.
PipelinePlan single_stage(int64_t layers, bool reduces_often);

// Returns the request that a section describes, without micro_batches.
ScheduleRequest schedule_request(const PipelineSection&);

// Returns the placement of a section's stages. Throws ConfigError as placement_of(), and for a schedule file that is
// missing or malformed.
Placement place_stages(const PipelineSection&);

// Plans the pipeline of a resolved spec whose vocabulary is known. Throws ConfigError with key, value and legal values.
PipelinePlan plan_pipeline(const RunSpec&);

}  // namespace fp
