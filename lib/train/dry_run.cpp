#include "train/dry_run.h"

#include <algorithm>
#include <vector>

#include "comm/counting.h"
#include "exec/executor.h"
#include "train/evaluation.h"
#include "train/memory_watch.h"
#include "train/setup.h"

namespace fp {
namespace {

double gib(size_t bytes) { return static_cast<double>(bytes) / static_cast<double>(size_t{1} << 30); }

}  // namespace

Batch shape_only(const RunSpec& spec) {
  Batch b;
  const int64_t rows = spec.train.objective == "dpo" ? 2 : 1;  // of a sample
  b.resize(rows * spec.train.micro_batch, spec.data.seq_len);
  if (rows == 2) b.reference_logp.assign(static_cast<size_t>(b.n), 0.0);
  if (spec.data.mask_documents) b.doc_start.back() = 1;
  b.valid_targets = b.n * b.seq_len;
  return b;
}

Prediction dry_run(const RunSpec& spec, const ModelSection& section, CountingOps& ops, const Mesh& mesh, int rank) {
  Arena arena;
  const auto world = make_counting_world(rank, mesh.size());
  const Groups groups = make_groups(*world, mesh);
  RunSpec resolved = spec;
  resolved.model = section;
  const PipelinePlan pipeline = plan_pipeline(resolved);
  Model model(section, model_options(spec, pipeline, groups.at.pp), ops, arena, groups);
  Executor executor(model, executor_options(spec, pipeline));
  const Batch batch = shape_only(spec);
  const std::vector<int> sizes = step_sizes(spec.train, mesh.dp());
  const int micro_batches = sizes.back();
  const bool whole = executor.pipeline_ranks() > 1;  // in a pipeline no two micro-batches are alike
  const std::vector<Batch> batches(static_cast<size_t>(whole ? micro_batches : std::min(micro_batches, 2)), batch);

  Prediction p;
  p.parameters = model.table().logical_parameters();
  const auto traffic_of = [&](const auto& work) {
    world->record().reset_traffic();
    work();
    return world->record().traffic();
  };
  ops.reset();
  p.counted = whole ? micro_batches : 1;
  p.traffic = traffic_of([&] { executor.accumulate(std::span(batches).first(static_cast<size_t>(p.counted))); });
  p.passes = ops.counts();
  if (whole)
    for (const int smaller : sizes) executor.accumulate(std::span(batches).first(static_cast<size_t>(smaller)));
  if (!whole && micro_batches > 1) {  // the first and the last differ, those between are like the second
    const TrafficTable of_two = traffic_of([&] { executor.accumulate(batches); });
    for (const auto& [key, t] : of_two) {
      Traffic& sum = p.traffic[key];
      sum = {sum.calls + (micro_batches - 1) * (t.calls - sum.calls),
             sum.bytes + (micro_batches - 1) * (t.bytes - sum.bytes)};
    }
  }
  ops.reset();
  const TrafficTable of_update = traffic_of([&] {
    executor.gradient_norm();
    executor.update(spec.optimizer, 1e-3, 1, 1.0);
  });
  p.update = ops.counts();
  for (const auto& [key, t] : of_update) {
    p.traffic[key].calls += t.calls;
    p.traffic[key].bytes += t.bytes;
  }
  const std::vector<Batch> evaluated(static_cast<size_t>(evaluation_batches(executor)), batch);
  for (size_t n = evaluated.size(); n > 0; --n) executor.evaluate(std::span(evaluated).first(n));
  p.arena_bytes = arena.peak();
  p.by_class = arena.by_class_at_peak();
  p.scratch_bytes = ops.scratch_bytes();
  p.own_bytes = ops.own_bytes();
  if (!ops.device_memory()) p.host_bytes = world->scratch_peak();
  p.attention = ops.attention_choices();
  return p;
}

void require_fit(size_t bytes, const Ops& device, int sharers) {
  const int64_t available = MemoryWatch::available(device);
  if (available > 0 && bytes > static_cast<size_t>(available))
    throw ConfigError(
        fmt::format("{} {:.2f} GiB of memory, {:.2f} GiB are available on {}: use a smaller train.micro_batch or "
                    "data.seq_len, memory.recompute: full, a higher parallel.zero_stage, or a smaller model",
                    sharers > 1 ? fmt::format("the {} ranks that share it need", sharers) : "this run needs",
                    gib(bytes), gib(static_cast<size_t>(available)), device.name()));
}

std::string describe(const Prediction& p, const RunSpec& spec) {
  std::string text = fmt::format("parameters            {:>12}\n\nmemory at the peak of a step, GiB\n", p.parameters);
  size_t sum = 0;
  for (int c = 0; c < kMemoryClasses; ++c) {
    const size_t bytes = p.by_class[static_cast<size_t>(c)];
    sum += bytes;
    if (bytes > 0) text += fmt::format("  {:<20}{:>12.3f}\n", name_of(static_cast<MemoryClass>(c)), gib(bytes));
  }
  if (p.arena_bytes > sum) text += fmt::format("  {:<20}{:>12.3f}\n", "gaps", gib(p.arena_bytes - sum));
  text += fmt::format("  {:<20}{:>12.3f}\n", "arena", gib(p.arena_bytes));
  if (p.own_bytes > 0) text += fmt::format("  {:<20}{:>12.3f}\n", "scratch", gib(p.own_bytes));
  if (p.host_bytes > 0) text += fmt::format("  {:<20}{:>12.3f}\n", "communication", gib(p.host_bytes));
  text += '\n';
  const auto n = static_cast<double>(p.counted);
  const auto tokens = static_cast<double>(spec.train.micro_batch * spec.data.seq_len);
  text += fmt::format("one micro-batch of {} x {} tokens\n", spec.train.micro_batch, spec.data.seq_len);
  text += fmt::format("  {:<20}{:>12.3f}\n  {:<20}{:>12.3f}\n", "TFLOP", p.passes.flops() / n / 1e12,
                      "of these in GEMMs", p.passes.gemm_flops() / n / 1e12);
  text += fmt::format("  {:<20}{:>12.3f}\n", "GFLOP per token", p.passes.flops() / n / tokens / 1e9);
  text += fmt::format("micro-batches a step  {:>12}\n",
                      spec.train.global_batch / spec.train.micro_batch / std::max<int64_t>(spec.parallel.data, 1));
  if (p.traffic.empty()) return text;
  text += "\nsent by the rank in a step\n";
  for (const auto& [key, t] : p.traffic)
    if (key.second != CommKind::host && key.second != CommKind::recv)
      text += fmt::format("  {:<34}{:>12.3f} MiB in {} calls\n", fmt::format("{}: {}", key.first, name_of(key.second)),
                          static_cast<double>(t.bytes) / (1 << 20), t.calls);
  return text;
}

std::string explain(const Prediction& p) {
  std::string text;
  for (const std::string& how : p.attention) text += fmt::format("attention is run by   {}\n", how);
  return text;
}

}  // namespace fp
