// The dial of memory: plans within budgets of device and host memory, what they cost, and that they train the same.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "comm/backends.h"
#include "config/load.h"
#include "config/open_keys.h"
#include "dryrun/setup.h"
#include "ops/backends.h"
#include "planner/candidates.h"
#include "planner/dial.h"
#include "planner/report.h"
#include "planner/savings.h"
#include "sharding/arrange.h"
#include "small_cluster.h"
#include "support/tiny_models.h"

using namespace fp;
using namespace fp::test;

namespace {

constexpr double kGiB = 1 << 30;

// Four ranks on the CPUs of a node, slow enough that small chunks hide their copies.
ClusterSpec small_cpus() {
  ClusterSpec c = small_cluster(4);
  c.device = ClusterDevice::cpu;
  c.overlaps = false;
  c.headroom = c.reserved_gib = 0;
  c.host_gb_per_s = 5;
  NodeProfile& n = c.profiles.front();
  n.peak_tflops_bf16 = n.peak_tflops_fp32 = 0.1;
  for (ProductRates& p : n.products) p.tflops = 0.05;
  n.ops = {{"attention", "", 0, 0.05, 0}, {"attention_backward", "", 0, 0.05, 0}, {"other", "", 10, 0, 0}};
  return c;
}

// A run whose keys of memory are open, and its ranks.
struct DrawnRun {
  RunSpec spec;
  int ranks = 1;
};

DrawnRun draw_run(std::mt19937& random) {
  const auto any = [&](const auto& values) { return values[random() % values.size()]; };
  DrawnRun run;
  RunSpec& s = run.spec;
  s.model = tiny_model(any(std::vector<std::string>{"gpt", "llama", "phi3"}));
  s.model.layers = any(std::vector<int64_t>{3, 4});
  s.model.hidden = 64;
  s.model.head_dim = 16;
  s.model.kv_heads = s.model.family == Family::gpt ? 4 : 2;
  s.model.ffn = 176;
  s.model.vocab = 503;
  s.model.init_std = 0.05;
  s.data.seq_len = any(std::vector<int64_t>{48, 200, 2048});
  s.model.max_position = s.data.seq_len;
  run.ranks = any(std::vector<int>{1, 2, 4});
  s.parallel.tensor = run.ranks == 4 ? 2 : 1;
  s.parallel.data = run.ranks > 1 ? 2 : 1;
  s.parallel.zero_stage = run.ranks > 1 ? any(std::vector<int64_t>{0, 1, 2, 3}) : 0;
  s.train.micro_batch = s.data.seq_len > 1000 ? 1 : 2;
  s.train.global_batch = 2 * s.train.micro_batch * s.parallel.data;
  s.memory.loss_chunk_tokens = 256;
  for (const OpenKey& key : open_keys())
    if (key.path.starts_with("memory.")) s.parallel.open.emplace_back(key.name);
  if (s.data.seq_len > 1000) {
    s.precision.compute = DType::f32;
  } else {  // sums over tiles differ in the last bits, which the rounding to bf16 makes larger
    s.precision.compute = any(std::vector<DType>{DType::bf16, DType::f32});
    if (s.precision.compute == DType::bf16) std::erase(s.parallel.open, "mlp_tile_tokens");
  }
  return run;
}

// Trains a planned run on threads, each with arenas of exactly the predicted sizes, and returns the losses.
std::vector<double> train(const RunSpec& planned, int ranks) {
  constexpr int kSteps = 3;
  RunSpec spec = planned;
  const Mesh mesh = arrange(spec, ranks);
  const PipelinePlan pipeline = plan_pipeline(spec);
  std::vector<double> losses;
  std::vector<Prediction> predicted;
  std::vector<size_t> device(static_cast<size_t>(ranks)), host(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    predicted.push_back(dry_run(spec, pipeline, *make_counting_ops(), mesh, rank));
  run_thread_ranks(ranks, [&](World& world) {
    const auto at = static_cast<size_t>(world.rank());
    const Prediction& p = predicted[at];
    const auto ops = make_cpu_ops();
    Arena arena(ops->allocate(p.arena_bytes, false), p.arena_bytes),
        host_arena(ops->allocate_host(p.offloaded_bytes, false), p.offloaded_bytes, Residence::host);
    const Groups groups = make_groups(world, mesh);
    Model model(spec.model, model_options(spec, pipeline, groups.at.pp), *ops, arena, groups, &host_arena);
    Executor executor(model, executor_options(spec, pipeline));
    model.params().initialize(*ops, 5);
    executor.restore_weights(0);
    const auto batches = [&](uint64_t seed, int64_t n) {
      std::vector<Batch> list;
      for (int64_t i = 0; i < n; ++i)
        list.push_back(random_batch(spec.model, spec.train.micro_batch, spec.data.seq_len,
                                    seed + static_cast<uint64_t>(2 * i + groups.at.dp)));
      return list;
    };
    for (int step = 1; step <= kSteps; ++step) {
      LossSums sums =
          executor.accumulate(batches(100 * static_cast<uint64_t>(step), step_sizes(spec.train, mesh.dp()).back()));
      const GradientNorm norm = executor.gradient_norm(sums);
      executor.update(spec.optimizer, 1e-3, step, norm.norm, world.size() > 1);
      if (world.rank() == 0) losses.push_back(sums.mean());
    }
    executor.evaluate(batches(7, executor.evaluation_batches()));
    device[at] = arena.peak();
    host[at] = host_arena.peak();
  });
  for (size_t r = 0; r < predicted.size(); ++r) {
    CHECK(device[r] == predicted[r].arena_bytes);
    CHECK(host[r] == predicted[r].offloaded_bytes);
  }
  return losses;
}

// The fastest of all plans that fit, by brute force; infinity if none does.
double fastest_of_all(const RunSpec& spec, int ranks, const ClusterSpec& cluster, Estimator& estimator) {
  double best = std::numeric_limits<double>::infinity();
  for (const Plan& p : Candidates(spec, ranks, cluster).all())
    if (const RunSpec s = with_plan(spec, p); estimator.memory(s, ranks).fits())
      best = std::min(best, estimator.estimate(s, ranks).time.total);
  return best;
}

// Draws budgets of a run on a GPU and compares the search with brute force.
void check_budgets_of_gpu(uint32_t seed, int count) {
  std::mt19937 random(seed);
  ClusterSpec cluster = small_cluster(4);
  cluster.host_memory_gib = 64;
  for (int i = 0; i < count; ++i) {
    const auto of = [&](double least, double most) {
      return least * std::pow(most / least, static_cast<double>(random() % 1000) / 1000);
    };
    cluster.host_gb_per_s = of(5, 200);
    cluster.host_update_gb_per_s = of(10, 300);
    RunSpec spec = parse_run_spec(
        "{model: {family: llama, layers: 8, hidden: 1024, heads: 8, kv_heads: 2, ffn: 2816, vocab: 32000, "
        "max_position: 65536}, train: {global_batch: 4, micro_batch: 1}, memory: {device_gib: 1}}",
        "t");
    spec.data.seq_len = int64_t{1024} << random() % 6;
    Estimator estimator(cluster);
    const RunSpec whole = with_plan(spec, Savings(spec, 1, cluster).without(plan_of(spec)));
    spec.memory.device_gib = static_cast<double>(estimator.memory(whole, 1).device_bytes) / kGiB * of(0.2, 1);
    if (i % 2 == 1) spec.memory.host_gib = of(0.1, 4);
    CAPTURE(spec.data.seq_len, spec.memory.device_gib, spec.memory.host_gib, cluster.host_gb_per_s);
    const Search found = search(spec, 1, cluster, estimator, {1e6, 1000});
    const double fastest = fastest_of_all(spec, 1, cluster, estimator);
    REQUIRE(found.best.has_value() == (fastest < std::numeric_limits<double>::infinity()));
    if (!found.best) continue;
    CAPTURE(describe(found.best->plan));
    CHECK(found.best->estimate.memory.fits());
    CHECK(found.best->estimate.time.total <= 1.01 * fastest);
    const std::vector<DialRow> rows = turn_dial(spec, found.best->plan, 1, cluster, estimator);
    const auto first = std::ranges::find_if(rows, [](const DialRow& r) { return r.choice.estimate.memory.fits(); });
    REQUIRE(first != rows.end());
    CHECK(first->choice.estimate.time.total <= 1.02 * found.best->estimate.time.total);
    for (size_t r = 1; r < rows.size(); ++r) {
      CHECK(rows[r].choice.estimate.memory.device_bytes < rows[r - 1].choice.estimate.memory.device_bytes);
      // The plan of the run is listed even if another one takes less memory and no more time.
      CHECK(rows[r].ms_per_gib >= (rows[r - 1].choice.plan == found.best->plan ? 0 : 1e-12));
    }
  }
}

// Draws runs and budgets from the whole of what a run needs without savings down to a tenth of it, and returns how many
// budgets were large enough.
int check_drawn_budgets(uint32_t seed, int count) {
  std::mt19937 random(seed);
  const ClusterSpec cluster = small_cpus();
  int fitting = 0;
  for (int i = 0; i < count; ++i) {
    DrawnRun run = draw_run(random);
    RunSpec& spec = run.spec;
    Estimator estimator(cluster);
    const RunSpec resident = with_plan(spec, Savings(spec, run.ranks, cluster).without(plan_of(spec)));
    const double needed = static_cast<double>(estimator.memory(resident, run.ranks).device_bytes) / kGiB,
                 part = 1 - 0.9 * static_cast<double>(i) / std::max(count - 1, 1);
    spec.memory.device_gib = part * needed * (1 + 1e-9);
    if (random() % 3 == 0) spec.memory.host_gib = run.ranks * needed * static_cast<double>(random() % 10) / 10;
    const Search found = search(spec, run.ranks, cluster, estimator, {1e6, 1000});
    const double fastest = fastest_of_all(spec, run.ranks, cluster, estimator);
    INFO(describe_model(spec.model) << ", sequences of " << spec.data.seq_len << ", " << run.ranks << " ranks, ZeRO "
                                    << spec.parallel.zero_stage << ", " << name_of(spec.precision.compute)
                                    << ", budget " << part << " of " << needed << " GiB, host "
                                    << spec.memory.host_gib);
    CHECK(found.best.has_value() == (fastest < std::numeric_limits<double>::infinity()));
    if (!found.best) {
      const std::string why = nothing_fits(found, run.ranks, cluster);
      CHECK_THAT(why, Catch::Contains("over memory."));
      if (why.find("over memory.device_gib") != std::string::npos)
        CHECK_THAT(why, !Catch::Contains("mostly offloaded tensors"));
      continue;
    }
    ++fitting;
    const Plan& plan = found.best->plan;
    INFO(describe(plan));
    const RankMemory& memory = found.best->estimate.memory;
    CHECK(static_cast<double>(memory.device_bytes) <= spec.memory.device_gib * kGiB);
    if (spec.memory.host_gib > 0) CHECK(static_cast<double>(memory.host_bytes()) <= spec.memory.host_gib * kGiB);
    CHECK(found.best->estimate.time.total <= 1.02 * fastest);
    // Weights in host memory come in this order, in which some sums of gradients differ in the last bits.
    RunSpec same_order = resident;
    if (plan.weights == Offload::host) same_order.parallel.pipeline.schedule = PipelineSchedule::bfs;
    const std::vector<double> losses = train(with_plan(spec, plan), run.ranks), whole = train(same_order, run.ranks);
    const bool divided = plan.mlp_tile_tokens > 0 || plan.sequence_chunk_tokens > 0;
    for (size_t step = 0; step < whole.size(); ++step)
      CHECK(losses[step] == (divided ? Approx(whole[step]).epsilon(1e-5) : Approx(whole[step]).epsilon(0).margin(0)));
  }
  return fitting;
}

}  // namespace

TEST_CASE("runs within random budgets train the same as without", "[planner]") {
  const int fitting = check_drawn_budgets(3, 5);
  CHECK(fitting > 1);
  CHECK(fitting < 5);
}

TEST_CASE("the plan within a budget is the fastest of those that fit", "[planner]") { check_budgets_of_gpu(1, 3); }

TEST_CASE("the plan within each of many budgets is the fastest of those that fit", "[planner][nightly]") {
  check_budgets_of_gpu(2, 20);
}

TEST_CASE("runs within many random budgets train the same as without", "[planner][nightly]") {
  CHECK(check_drawn_budgets(1, 20) > 8);
  CHECK(check_drawn_budgets(2, 20) > 8);
}
