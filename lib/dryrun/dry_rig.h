// One rank of a dry run: the model and the executor on counting ops and arenas without memory.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.h"
#include "comm/counting.h"
#include "dryrun/dry_run.h"
#include "dryrun/setup.h"
#include "exec/executor.h"
#include "ops/counting.h"
#include "sharding/pipeline_plan.h"

namespace fp {

struct DryRig {
  // `spec` must be resolved, with its vocabulary, and `plan` its result of plan_pipeline().
  DryRig(const RunSpec& spec, const PipelinePlan& plan, CountingOps& ops, const Mesh& mesh, int rank)
      : world(world_of(spec, mesh, rank)),
        groups(make_groups(*world, mesh)),
        model(spec.model, model_options(spec, plan, groups.at.pp), ops, arena, groups, &host_arena),
        executor(model, options_of(spec, plan)),
        batch(shape_only(spec)) {}

  // Throws ConfigError for more tokens than a rank can keep: a real step holds all of them in host memory too.
  std::vector<Batch> batches(int n) const {
    constexpr size_t kMostBytes = size_t{8} << 30, kBytesPerToken = 4 * sizeof(int32_t);
    if (batch.tokens.size() * kBytesPerToken > kMostBytes / static_cast<size_t>(std::max(n, 1)))
      throw ConfigError(
          fmt::format("a step of a rank has {} micro-batches of {} tokens; legal: at most {} tokens in all; lower "
                      "train.global_batch, train.micro_batch or data.seq_len, or raise parallel.data",
                      n, batch.tokens.size(), kMostBytes / kBytesPerToken));
    return std::vector<Batch>(static_cast<size_t>(n), batch);
  }

  static std::unique_ptr<CountingWorld> world_of(const RunSpec& spec, const Mesh& mesh, int rank) {
    auto made = make_counting_world(rank, mesh.size());
    made->set_nodes(nodes_of(spec.parallel, mesh.size()));
    return made;
  }

  static ExecutorOptions options_of(const RunSpec& spec, const PipelinePlan& plan) {
    ExecutorOptions o = executor_options(spec, plan);
    o.assume_within_limit = true;
    return o;
  }

  Arena arena, host_arena{Residence::host};
  std::unique_ptr<CountingWorld> world;
  Groups groups;
  Model model;
  Executor executor;
  Batch batch;
};

}  // namespace fp
