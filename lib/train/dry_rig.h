// A rank of a run that computes nothing: the model and the executor on counting Ops and an arena without memory.
#pragma once

#include <memory>
#include <vector>

#include "comm/counting.h"
#include "exec/executor.h"
#include "ops/counting.h"
#include "plan/pipeline.h"
#include "train/dry_run.h"
#include "train/setup.h"

namespace fp {

struct DryRig {
  // `spec` must be resolved, with its vocabulary. ConfigError when its pipeline cannot be had.
  DryRig(const RunSpec& spec, CountingOps& ops, const Mesh& mesh, int rank)
      : world(make_counting_world(rank, mesh.size())),
        groups(make_groups(*world, mesh)),
        pipeline(plan_pipeline(spec)),
        model(spec.model, model_options(spec, pipeline, groups.at.pp), ops, arena, groups),
        executor(model, executor_options(spec, pipeline)),
        batch(shape_only(spec)) {}

  std::vector<Batch> batches(int n) const { return std::vector<Batch>(static_cast<size_t>(n), batch); }

  Arena arena;
  std::unique_ptr<CountingWorld> world;
  Groups groups;
  PipelinePlan pipeline;
  Model model;
  Executor executor;
  Batch batch;
};

}  // namespace fp
