// Compares the activations of a pipeline rank in the arena with the schedule's memory bound.
#include <catch2/catch.hpp>

#include "comm/counting.h"
#include "config/load.h"
#include "dryrun/dry_run.h"
#include "dryrun/setup.h"
#include "dryrun/stage_memory.h"
#include "exec/executor.h"

using namespace fp;

namespace {

RunSpec large_spec(const std::string& pipeline, const std::string& recompute) {
  RunSpec spec = parse_run_spec(fmt::format("model: {{preset: llama-3.2-1b, layers: 16}}\n"
                                            "data: {{seq_len: 2048}}\n"
                                            "train: {{micro_batch: 1, global_batch: 16}}\n"
                                            "memory: {{recompute: {}}}\n"
                                            "parallel: {{pipeline: {{{}}}}}",
                                            recompute, pipeline),
                                "test");
  return spec;
}

// Bytes that a rank allocates for a step beyond its permanent state: in use, and with gaps of the arena.
struct Taken {
  int64_t used = 0, laid_out = 0;
};

Taken take_step(const RunSpec& spec, const PipelinePlan& plan, int rank) {
  const auto ops = make_counting_ops();
  const Mesh mesh(plan.placement.ranks, 1, 1, 1, plan.placement.ranks, plan.placement.two_way);
  const auto world = make_counting_world(rank, mesh.size());
  Arena arena;
  const Groups groups = make_groups(*world, mesh);
  Model model(spec.model, model_options(spec, plan, rank), *ops, arena, groups);
  Executor executor(model, executor_options(spec, plan));
  const auto before = static_cast<int64_t>(arena.in_use());
  const std::vector<Batch> batches(static_cast<size_t>(spec.train.global_batch), shape_only(spec));
  executor.accumulate(batches);
  return {static_cast<int64_t>(arena.most_in_use()) - before, static_cast<int64_t>(arena.peak()) - before};
}

}  // namespace

TEST_CASE("the activations of a pipeline rank equal the schedule's memory bound", "[pipeline][memory]") {
  const std::string schedule =
      GENERATE("schedule: gpipe", "schedule: 1f1b", "schedule: interleaved, chunks: 2", "schedule: bfs, chunks: 2",
               "schedule: zb-h1", "schedule: zb-h2", "schedule: zb-v", "schedule: interleaved-zb, chunks: 2",
               "schedule: chimera", "schedule: bitpipe", "schedule: dualpipe", "schedule: dualpipev",
               "schedule: zeropp, chunks: 2", "schedule: wave, chunks: 2", "schedule: chimera, w_pass: true",
               "schedule: bitpipe, w_pass: true", "schedule: 1f1b, w_pass: true",
               "schedule: 1f1b, recompute: [full, none, selective, full]");
  const int ranks = schedule.find("recompute") == std::string::npos ? GENERATE(2, 4) : 4;
  const std::string recompute = GENERATE("none", "full");
  const RunSpec spec = large_spec(fmt::format("ranks: {}, {}", ranks, schedule), recompute);
  const PipelinePlan plan = plan_pipeline(spec);
  const auto ops = make_counting_ops();
  const auto stages = measure_stages(spec, plan, *ops, Mesh(ranks, 1, 1, 1, ranks), {});
  const std::vector<int64_t> bounds =
      peak_bytes(plan.step(static_cast<int>(spec.train.global_batch)), plan.lowering, stages);
  for (int rank = 0; rank < ranks; ++rank) {
    const Taken taken = take_step(spec, plan, rank);
    const auto bound = static_cast<double>(bounds[static_cast<size_t>(rank)]);
    INFO(schedule << ", " << ranks << " ranks, recompute " << recompute << ", rank " << rank << ": bound "
                  << bound / (1 << 20) << " MiB");
    CHECK(static_cast<double>(taken.used) / bound > 0.95);
    CHECK(static_cast<double>(taken.used) / bound < 1.001);    // token ids and losses come on top
    CHECK(static_cast<double>(taken.laid_out) / bound < 1.4);  // gaps between tensors of many sizes and lifetimes
  }
}
