// Compares the dry run with a real run: the same bytes, and FLOPs that agree with the closed formula.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "config/load.h"
#include "config/model_facts.h"
#include "dryrun/dry_rig.h"
#include "dryrun/dry_run.h"
#include "dryrun/setup.h"
#include "ops/backends.h"
#include "ops/cpu/cpu_ops.h"
#include "support/tiny_models.h"

using namespace fp;
using namespace fp::test;

namespace {

RunSpec tiny_spec(const std::string& name, DType precision, Recompute recompute, Offload optimizer = Offload::none) {
  RunSpec s;
  s.model = tiny_model(name);
  s.data.seq_len = 12;
  s.train.micro_batch = 3;
  s.train.global_batch = 6;
  s.precision.compute = precision;
  s.memory.recompute = recompute;
  s.memory.loss_chunk_tokens = 7;
  s.memory.offload.optimizer = optimizer;
  return s;
}

// A model with exactly the memory that the dry run predicts.
struct PredictedRig {
  std::unique_ptr<Ops> ops = make_cpu_ops();
  std::unique_ptr<CountingOps> counting = make_counting_ops(ops.get());
  Prediction prediction;
  Arena arena, host_arena;
  Groups groups = make_self_groups();
  Model model;
  Executor executor;

  explicit PredictedRig(const RunSpec& spec)
      : prediction(dry_run(spec, spec.model, *counting)),
        arena(host_memory(prediction.arena_bytes, false), prediction.arena_bytes),
        host_arena(ops->allocate_host(prediction.offloaded_bytes, false), prediction.offloaded_bytes, Residence::host),
        model(spec.model, model_options(spec), *ops, arena, groups, &host_arena),
        executor(model, executor_options(spec)) {
    model.params().initialize(*ops, 1);
  }
};

}  // namespace

TEST_CASE("a step of more tokens than a rank can keep is refused", "[train]") {
  const RunSpec spec = tiny_spec("llama", DType::f32, Recompute::none);
  const auto counting = make_counting_ops();
  const DryRig rig(spec, plan_pipeline(spec), *counting, Mesh(), 0);
  CHECK(rig.batches(2).size() == 2);
  CHECK_THROWS_WITH(rig.batches(1 << 28), Catch::Contains("268435456 micro-batches of 36 tokens") &&
                                              Catch::Contains("lower train.global_batch"));
}

TEST_CASE("the arena and the scratch memory of a step are as large as the dry run's", "[train]") {
  const std::string name = GENERATE(from_range(tiny_names()));
  const DType precision = GENERATE(DType::bf16, DType::f32);
  const Recompute recompute = GENERATE(Recompute::none, Recompute::selective, Recompute::full);
  const Offload offload = GENERATE(Offload::none, Offload::host);
  CAPTURE(name, name_of(precision), name_of(recompute), name_of(offload));
  const RunSpec spec = tiny_spec(name, precision, recompute, offload);
  PredictedRig rig(spec);
  const std::vector<Batch> batches = {random_batch(spec.model, 3, 12, 1), random_batch(spec.model, 3, 12, 2)};
  rig.executor.accumulate(batches);
  rig.executor.update(spec.optimizer, 1e-3, 1, rig.executor.gradient_norm().norm);
  rig.executor.evaluate(std::span(batches).first(1));
  CHECK(rig.arena.peak() == rig.prediction.arena_bytes);
  CHECK(rig.host_arena.peak() == rig.prediction.offloaded_bytes);
  CHECK(rig.prediction.own_bytes == rig.prediction.scratch_bytes);
  CHECK(dynamic_cast<CpuOps&>(*rig.ops).pooled_scratch() == rig.prediction.scratch_bytes);
  CHECK(rig.prediction.parameters == parameter_count(spec.model));
}

TEST_CASE("counted matrix products match the formula", "[train]") {
  for (const char* preset : {"gpt2", "llama-3.2-1b", "phi-3-mini-4k", "phi-3-small-8k"}) {
    CAPTURE(preset);
    RunSpec spec = parse_run_spec(std::string("model: {preset: ") + preset + "}", "test",
                                  {"data.seq_len=1024", "train.micro_batch=2"});
    const auto counting = make_counting_ops();
    const Prediction p = dry_run(spec, spec.model, *counting);
    ModelSection padded = spec.model;
    padded.vocab = padded_vocab(spec.model);
    // 6 FLOPs per weight and token; attention is not a linear layer.
    const double heads = static_cast<double>(12 * padded.layers * padded.heads * padded.head_dim) * 1024;
    CHECK(p.passes.gemm_flops() ==
          Approx((flops_per_token(padded, 1024, AttentionCount::full) - heads) * 2 * 1024).epsilon(1e-12));
  }
}

TEST_CASE("recomputation trades memory for FLOPs", "[train]") {
  const auto counting = make_counting_ops();
  const auto at = [&](const char* recompute) {
    const RunSpec s =
        parse_run_spec("model: {preset: gpt2}", "test",
                       {"data.seq_len=256", "train.micro_batch=4", std::string("memory.recompute=") + recompute});
    return dry_run(s, s.model, *counting);
  };
  const Prediction none = at("none"), selective = at("selective"), full = at("full");
  CHECK(full.arena_bytes < selective.arena_bytes);
  CHECK(selective.arena_bytes < none.arena_bytes);
  CHECK(full.passes.flops() > 1.1 * none.passes.flops());
  CHECK(selective.passes.gemm_flops() == none.passes.gemm_flops());
}

TEST_CASE("a diagnosis needs no more memory than the step it examines", "[train]") {
  RunSpec spec = tiny_spec("llama", GENERATE(DType::f32, DType::bf16), Recompute::full);
  const bool in_tiles = GENERATE(false, true);
  spec.model.vocab = in_tiles ? 37 : 20000;
  if (in_tiles) {
    spec.memory.mlp_tile_tokens = 2;
    spec.model.ffn = 2000;
  }
  spec.train.micro_batch = spec.train.global_batch = 1;
  spec.train.z_loss = 1e38;  // the loss stays finite, its gradient does not
  PredictedRig rig(spec);
  const std::vector<Batch> batches = {random_batch(spec.model, 1, 12, 1)};
  CHECK(std::isfinite(rig.executor.accumulate(batches).loss));
  REQUIRE_FALSE(rig.executor.gradient_norm().finite);
  CHECK_THAT(rig.executor.diagnose(batches), Catch::Contains("gradient of"));
}

TEST_CASE("the dry run names the moment of the peak", "[train]") {
  const auto counting = make_counting_ops();
  RunSpec spec = tiny_spec("llama", DType::f32, Recompute::none);
  spec.model.layers = 6;
  const auto moment = [&](const Mesh& mesh, int rank) {
    return dry_run(spec, spec.model, *counting, mesh, rank).moment;
  };
  CHECK_THAT(moment({}, 0), Catch::Matches("micro-batch . of 2, (backward of layer 5|LM head and loss)"));
  spec.model.vocab = 20000;
  spec.memory.loss_chunk_tokens = 1000;
  CHECK_THAT(moment({}, 0), Catch::Matches("micro-batch . of 2, LM head and loss"));
  spec.model.vocab = 37;
  spec.train.global_batch = 8 * spec.train.micro_batch;
  spec.parallel.pipeline.ranks = 3;
  const Mesh mesh(3, 1, 1, 1, 3);
  CHECK_THAT(moment(mesh, 0), Catch::Matches("micro-batch [1-8] of 8, (forward|backward) of layer [01]"));
  CHECK_THAT(moment(mesh, 1), Catch::Matches("micro-batch [1-8] of 8, (forward|backward) of layer [23]"));
  CHECK_THAT(moment(mesh, 2), Catch::Matches("micro-batch [1-8] of 8, (backward of layer [45]|LM head and loss)"));
  CHECK_THAT(describe(dry_run(spec, spec.model, *counting, mesh, 1), spec), Catch::Contains("reached in"));
}

TEST_CASE("the host memory of a limited error is that of its first step, which sums exactly", "[train]") {
  const auto counting = make_counting_ops();
  const Mesh mesh(1, 4, 1, 1, 4);
  const auto host_bytes = [&](int64_t bits, double limit) {
    RunSpec spec = tiny_spec("llama", DType::bf16, Recompute::none);
    spec.train.global_batch = 12;
    spec.parallel.data = 4;
    spec.parallel.zero_stage = 1;
    spec.communication.gradient_bits = bits;
    spec.communication.max_gradient_error = limit;
    return dry_run(spec, spec.model, *counting, mesh, 0).host_bytes;
  };
  const size_t exact = host_bytes(0, 0), quantized = host_bytes(8, 0), limited = host_bytes(8, 0.5);
  CHECK(exact > quantized);
  CHECK(limited >= exact);
}
