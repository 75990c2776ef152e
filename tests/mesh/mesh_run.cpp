#include "mesh/mesh_run.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "comm/counting.h"
#include "dryrun/setup.h"
#include "model/host_view.h"
#include "ops/counting.h"

namespace fp::test {

OptimizerSection steady_adamw() {
  OptimizerSection optimizer;
  optimizer.eps = 1e-3;
  return optimizer;
}

std::string MeshPlan::text() const {
  const PipelineSection& p = pipeline;
  const std::string pp =
      p.ranks == 1 && p.schedule != PipelineSchedule::bfs
          ? ""
          : fmt::format("pp {} {}{}{} m {} ", p.ranks, p.schedule, p.chunks > 0 ? fmt::format(" v {}", p.chunks) : "",
                        p.w_pass ? " +W" : "", micro_batches);
  return fmt::format("{}tp {} sp {} dp {} zero {}{} recompute {} {} length {}{}", pp, tp, sp, dp, zero,
                     megatron ? " megatron-sp" : "", static_cast<int>(recompute), name_of(compute), length,
                     chunk > 0 ? fmt::format(" chunk {}", chunk) : "");
}

std::vector<MeshPlan> all_plans() {
  std::vector<MeshPlan> plans;
  for (const int tp : {1, 2, 4})
    for (const int sp : {1, 2, 4})
      for (const int dp : {1, 2})
        for (const int zero : {0, 1, 2, 3})
          for (const bool megatron : {false, true})
            for (const Recompute recompute : {Recompute::none, Recompute::full}) {
              MeshPlan p{tp, sp, dp, zero, megatron, recompute};
              if (p.ranks() > 1 && p.ranks() <= 8 && (tp > 1 || !megatron)) plans.push_back(p);
            }
  return plans;
}

CopySettings delayed(std::vector<CopyLane> lanes) {
  return {{}, [lanes](CopyLane lane) {
            thread_local std::mt19937 random(static_cast<unsigned>(lane) + 5);
            if (std::ranges::find(lanes, lane) != lanes.end())
              std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
          }};
}

MeshPlan piped(PipelineSchedule schedule, MeshPlan plan) {
  plan.pipeline.ranks = 2;
  plan.pipeline.schedule = schedule;
  return plan;
}

MeshPlan hampered(MeshPlan plan) {
  plan.poison = true;
  plan.copies = delayed({CopyLane::to_host, CopyLane::to_device});
  return plan;
}

ModelSection shared_model(const std::string& family) {
  ModelSection m = tiny_model(family == "phi3" ? "phi3" : family);
  m.hidden = 32;
  m.heads = 8;
  m.kv_heads = family == "gpt" || family == "phi3" ? 8 : 2;
  return m;
}

ModelSection deep_model(const std::string& family, int64_t layers) {
  ModelSection m = shared_model(family);
  m.layers = layers;
  return m;
}

namespace {

// Returns micro-batch `i` of data-parallel rank `dp` in a step.
Batch micro_batch(const ModelSection& m, const MeshPlan& plan, int step, int64_t i, int dp) {
  const Batch all = random_batch(m, static_cast<int>(plan.samples), static_cast<int>(plan.length),
                                 100 + static_cast<uint64_t>(step), plan.documents);
  FP_CHECK(plan.samples % (plan.micro_batches * plan.dp) == 0, "{} samples for {} ranks of {} micro-batches",
           plan.samples, plan.dp, plan.micro_batches);
  const int64_t each = plan.samples / plan.micro_batches / plan.dp, first = (i * plan.dp + dp) * each;
  Batch b;
  b.resize(each, plan.length);
  const auto take = [&](const std::vector<int32_t>& from, std::vector<int32_t>& to) {
    std::copy_n(from.begin() + first * plan.length, each * plan.length, to.begin());
  };
  take(all.tokens, b.tokens);
  take(all.targets, b.targets);
  take(all.positions, b.positions);
  take(all.doc_start, b.doc_start);
  std::copy_n(all.sample_ids.begin() + first, each, b.sample_ids.begin());
  if (plan.executor.loss.dpo)
    for (int64_t r = 0; r < each; ++r) b.reference_logp.push_back(-30.0 - static_cast<double>((first + r) % 3));
  return b;
}

// Every rank writes the elements that it owns, so that each is written once.
void collect(const ParamStore& store, Ops& ops, int slot, MeshResult& result) {
  const ParamTable& table = store.table();
  std::vector<float> host;
  for (ParamId id = 0; id < static_cast<ParamId>(table.size()); ++id) {
    if (!table.has_slot(id, slot)) continue;
    const Param& p = table[id];
    std::vector<float>& whole =
        slot == kParamSlot ? result.params.at(p.name) : result.states.at(p.name + "/" + table.slot_name(slot));
    const int64_t columns = p.shape.rank() == 2 ? p.shape[1] : 1;
    for (const Fragment& f : table.owned(id)) {
      host.resize(static_cast<size_t>(f.count.elements()));
      read_tensor(ops, store.state(slot, {id, f.offset, f.count.elements()}), host.data());
      const int64_t width = p.shape.rank() == 2 ? f.count[1] : 1, first = p.shape.rank() == 2 ? f.start[1] : 0;
      for (int64_t y = 0; y < f.count[0]; ++y)
        std::copy_n(host.begin() + y * width, width, whole.begin() + (f.start[0] + y) * columns + first);
    }
  }
}

RunSpec spec_of(const ModelSection& m, const MeshPlan& plan) {
  RunSpec spec;
  spec.model = m;
  spec.run.seed = 11;
  spec.data.seq_len = plan.length;
  spec.parallel.pipeline = plan.pipeline;
  spec.parallel.zero_stage = plan.zero;
  spec.parallel.megatron_sp = plan.megatron;
  spec.precision.compute = plan.compute;
  spec.precision.gradients = plan.gradients;
  spec.optimizer = plan.optimizer;
  spec.memory.sequence_chunk_tokens = plan.chunk;
  spec.memory.mlp_tile_tokens = plan.mlp_tile;
  spec.memory.offload.optimizer = plan.offload ? Offload::host : Offload::none;
  spec.memory.offload.activations = plan.offload_inputs ? Offload::host : Offload::none;
  spec.memory.offload.weights = plan.offload_weights ? Offload::host : Offload::none;
  spec.communication = plan.communication;
  return spec;
}

void run_rank(const ModelSection& m, const MeshPlan& plan, World& world, MeshResult& result, Ops* ops, Arena& arena,
              Arena& host_arena) {
  const RunSpec spec = spec_of(m, plan);
  const PipelinePlan pipeline = plan_pipeline(spec);
  if (plan.ranks_per_node > 0) world.set_nodes(NodeMap(plan.ranks(), plan.ranks_per_node));
  const Groups groups = make_groups(world, Mesh(static_cast<int>(plan.pipeline.ranks), plan.dp, plan.sp, plan.tp,
                                                plan.ranks(), pipeline.placement.two_way));
  ModelOptions options = model_options(spec, pipeline, groups.at.pp);
  options.compute = plan.compute;
  options.recompute = plan.recompute;
  options.subgroup_elements = plan.subgroup_elements;
  options.tensor_pieces = plan.tensor_pieces;
  options.overlap = plan.overlap;
  options.piece_rows = 1;
  Model model(m, options, *ops, arena, groups, &host_arena);
  ExecutorOptions what = plan.executor;
  what.pipeline = pipeline;
  what.device_share = plan.device_share;
  what.early_gradients = plan.early_gradients;
  what.max_gradient_error = plan.communication.max_gradient_error;
  what.error_feedback_steps = plan.communication.error_feedback_steps;
  what.assume_within_limit = arena.dry();
  Executor executor(model, what);
  model.params().initialize(*ops, 5);
  executor.restore_weights(0);
  for (int step = 1; step <= plan.steps; ++step) {
    std::vector<Batch> batches;
    for (int64_t i = 0; i < plan.micro_batches; ++i) batches.push_back(micro_batch(m, plan, step, i, groups.at.dp));
    world.record().reset_traffic();
    if (plan.before_step) plan.before_step(executor, world.rank(), step);
    LossSums sums = executor.accumulate(batches);
    const GradientNorm norm = executor.gradient_norm(sums);
    if (plan.after_gradients) plan.after_gradients(executor, world.rank());
    if (plan.skip_every == 0 || step % plan.skip_every != 0) executor.update(plan.optimizer, plan.lr, step, norm.norm);
    if (step == plan.steps) result.traffic[static_cast<size_t>(world.rank())] = world.record().traffic();
    if (world.rank() != 0) continue;
    result.losses.push_back(sums.mean());
    result.norms.push_back(norm.norm);
  }
  executor.settle_weights();
  if (!arena.dry())
    for (int slot = kParamSlot; slot < (plan.states ? model.table().slot_count() : 1); ++slot)
      collect(model.params(), *ops, slot, result);
  if (!arena.dry() && plan.weights && plan.compute != DType::f32) {
    std::vector<std::byte>& weights = result.weights.at(world.rank());
    const bool all = !model.params().weights_sharded() && !plan.own_weights;
    for (const ParamUnit& u : model.table().units())
      for (const ParamPart& p : all ? model.table().parts(u, true) : model.params().kept(u)) {
        const Tensor t = model.params().kept_weights(p);
        weights.resize(weights.size() + t.bytes());
        read_tensor(*ops, t, weights.data() + weights.size() - t.bytes());
      }
  }
  result.peaks[static_cast<size_t>(world.rank())] = arena.peak();
  result.host_peaks[static_cast<size_t>(world.rank())] = host_arena.peak();
  result.classes[static_cast<size_t>(world.rank())] = arena.by_class_at_peak();
  const bool may_differ = plan.before_step || plan.after_gradients;  // tests that flip bits
  if (!arena.dry() && !may_differ) check_replicas(model, *ops);
}

}  // namespace

namespace {
MeshResult empty_result(const MeshPlan& plan) {
  MeshResult result;
  result.reach = plan.lr * plan.steps;
  const auto ranks = static_cast<size_t>(plan.ranks());
  result.traffic.resize(ranks);
  result.peaks.resize(ranks);
  result.host_peaks.resize(ranks);
  result.classes.resize(ranks);
  return result;
}
}  // namespace

MeshResult count_mesh(const ModelSection& m, const MeshPlan& plan) {
  MeshResult result = empty_result(plan);
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const auto world = make_counting_world(rank, plan.ranks());
    const auto ops = make_counting_ops();
    Arena arena, host_arena(Residence::host);
    run_rank(m, plan, *world, result, ops.get(), arena, host_arena);
  }
  return result;
}

constexpr int kPoison = 0xff;  // NaN in fp32 and bf16, -1 in integers

MeshResult run_mesh(const ModelSection& m, const MeshPlan& plan) {
  MeshResult result = empty_result(plan);
  ParamTable table;
  declare_parameters(m, table);
  table.set_slots(state_slots(plan.optimizer.kind));
  for (ParamId id = 0; id < static_cast<ParamId>(table.size()); ++id) {
    const Param& p = table[id];
    const std::vector<float> unset(static_cast<size_t>(p.shape.elements()), std::nanf(""));
    result.params[p.name] = unset;
    for (const int slot : table.slots_of(id))
      if (plan.states && slot != kParamSlot) result.states[p.name + "/" + table.slot_name(slot)] = unset;
  }
  for (int rank = 0; rank < plan.ranks(); ++rank) result.weights[rank] = {};
  run_thread_ranks(plan.ranks(), [&](World& world) {
    constexpr size_t kBytes = size_t{24} << 20;
    const auto ops = make_cpu_ops(plan.copies);
    const std::shared_ptr<std::byte> memory = ops->allocate(kBytes, false), host = ops->allocate_host(kBytes, false);
    Arena arena(memory, kBytes), host_arena(host, kBytes, Residence::host);
    if (plan.poison)
      for (Arena* const a : {&arena, &host_arena}) {
        std::memset(a->alloc(DType::u8, {static_cast<int64_t>(kBytes)})->data, kPoison, kBytes);
        a->on_release([](void* data, size_t bytes) { std::memset(data, kPoison, bytes); });
      }
    const std::unique_ptr<World> over = plan.over ? plan.over(world) : nullptr;
    run_rank(m, plan, over ? *over : world, result, ops.get(), arena, host_arena);
  });
  return result;
}

double worst_difference(const MeshResult& a, const MeshResult& b) {
  double worst = 0;
  for (const auto& [name, x] : a.params) {
    const std::vector<float>& y = b.params.at(name);
    double largest = a.reach, difference = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(x[i])));
      const double d = std::abs(static_cast<double>(x[i]) - y[i]);
      difference = std::isfinite(d) ? std::max(difference, d) : std::numeric_limits<double>::infinity();
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

void check_trains_like(const ModelSection& m, const MeshPlan& plan, const MeshResult& one) {
  constexpr double kTolerance = 1e-5;
  INFO(plan.text());
  const MeshResult many = run_mesh(m, plan);
  REQUIRE(many.losses.size() == one.losses.size());
  double worst = 0;
  for (size_t i = 0; i < one.losses.size(); ++i)
    worst = std::max(worst, std::abs(many.losses[i] - one.losses[i]) / one.losses[i]);
  CHECK(worst < kTolerance);
  CHECK(worst_difference(one, many) < kTolerance);
  CHECK(run_mesh(m, plan) == many);
}

}  // namespace fp::test
