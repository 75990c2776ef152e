// Weights and gradients in host memory, with micro-batches that pass layer by layer: the same bits as on the device,
// under any delays of the copies, and the memory that the dry run predicts.
#include <catch2/catch.hpp>
#include <cmath>

#include "base/error.h"
#include "mesh/mesh_run.h"

using namespace fp;
using namespace fp::test;

namespace {

const std::vector<CopyLane> kEveryLane = {CopyLane::to_host, CopyLane::to_device, CopyLane::on_host};

MeshPlan breadth_first(MeshPlan plan) {
  plan.pipeline.schedule = PipelineSchedule::bfs;
  return plan;
}

MeshPlan with_weights_away(MeshPlan plan, double share) {
  plan.offload = plan.offload_weights = plan.poison = true;
  plan.device_share = share;
  return plan;
}

void check_finite(const MeshResult& r) {
  for (const auto& [name, values] : r.states)
    if (std::ranges::any_of(values, [](float v) { return std::isnan(v); })) FAIL("NaN in " << name);
}

// Compares these shares with a run that keeps everything on the device, in the same order of passes.
void check_weights_away(const ModelSection& m, MeshPlan plan, const std::vector<double>& shares = {0, 0.5, 1}) {
  plan.states = plan.weights = plan.own_weights = true;
  CAPTURE(plan.text());
  const MeshResult resident = run_mesh(m, breadth_first(plan));
  for (const double share : shares) {
    MeshPlan away = with_weights_away(plan, share);
    if (share != 1) away.copies = delayed(kEveryLane);
    CAPTURE(share);
    const MeshResult offloaded = run_mesh(m, away);
    CHECK(offloaded == resident);
    check_finite(offloaded);
  }
}

MeshPlan clipped(MeshPlan plan) {
  plan.optimizer.grad_clip = 0.05;  // less than the norms
  plan.skip_every = 3;
  plan.executor.check_sums = true;
  plan.subgroup_elements = 1000;
  return plan;
}

}  // namespace

TEST_CASE("weights in host memory train to the bits of weights on the device", "[mesh][slow]") {
  const ModelSection m = shared_model("llama");
  for (const DType compute : {DType::bf16, DType::f32})
    for (MeshPlan p : {MeshPlan{.micro_batches = 4}, MeshPlan{.dp = 2}, MeshPlan{.dp = 2, .zero = 1},
                       MeshPlan{.dp = 2, .zero = 2}, MeshPlan{.dp = 2, .zero = 3}}) {
      p.compute = compute;
      check_weights_away(m, clipped(p));
    }
  for (const int zero : {1, 3})
    check_weights_away(m, clipped({.dp = 4, .zero = zero, .compute = DType::bf16, .samples = 8}));
}

TEST_CASE("the order of the micro-batches changes no bit where gradients are summed once a step", "[mesh]") {
  const ModelSection m = shared_model("llama");
  for (MeshPlan plan : {MeshPlan{.micro_batches = 4}, MeshPlan{.dp = 2, .zero = 1, .compute = DType::bf16}}) {
    plan.steps = 6;
    plan.states = plan.weights = plan.own_weights = true;
    CAPTURE(plan.text());
    const MeshResult in_turn = run_mesh(m, plan);
    CHECK(run_mesh(m, breadth_first(plan)) == in_turn);
    CHECK(run_mesh(m, with_weights_away(plan, 0.5)) == in_turn);
  }
}

TEST_CASE("weights in host memory compose with shared embeddings, other axes, Lion and bf16 gradients", "[mesh]") {
  MeshPlan all{.tp = 2, .sp = 2, .dp = 2, .zero = 3, .megatron = true, .compute = DType::bf16, .steps = 6};
  check_weights_away(shared_model("phi3"), all, {0.5});
  MeshPlan narrow{.dp = 2, .zero = 2, .compute = DType::bf16, .gradients = DType::bf16, .steps = 6};
  check_weights_away(shared_model("gpt"), narrow);
  MeshPlan whole{.dp = 2, .compute = DType::bf16, .gradients = DType::bf16, .steps = 6};
  check_weights_away(shared_model("gpt"), whole, {0.5});
  MeshPlan lion{.compute = DType::bf16, .micro_batches = 4, .steps = 6};
  lion.optimizer.kind = OptimizerKind::lion;
  check_weights_away(shared_model("gpt"), lion);
  MeshPlan rounded{.dp = 2, .compute = DType::bf16, .steps = 6};
  rounded.executor.rounding_seed = 3;
  rounded.subgroup_elements = 1000;
  check_weights_away(shared_model("llama"), rounded);
}

TEST_CASE("recomputed layers, whose inputs may be in host memory, get the same weights again", "[mesh]") {
  for (MeshPlan plan : {MeshPlan{.micro_batches = 4}, MeshPlan{.micro_batches = 1}, MeshPlan{.dp = 2, .zero = 3}}) {
    plan.compute = DType::bf16;
    plan.recompute = Recompute::full;
    plan.steps = 4;
    const ModelSection m = deep_model("llama", 5);
    check_weights_away(m, plan, {0});
    plan.offload_inputs = true;
    check_weights_away(m, plan, {0.5});
    plan.chunk = 4;
    plan.mlp_tile = 5;
    check_weights_away(m, plan, {1});
  }
}

TEST_CASE("stages of several layers, and more of them on the device, change no bit", "[mesh]") {
  const ModelSection m = deep_model("gpt", 6);
  MeshPlan plan{.dp = 2, .zero = 1, .compute = DType::bf16, .steps = 4};
  plan.states = true;
  for (const auto& [chunks, stages] : {std::pair(0, 3), std::pair(3, 1), std::pair(1, 2), std::pair(4, 8)}) {
    MeshPlan away = with_weights_away(plan, 0.5);
    away.copies = delayed(kEveryLane);
    away.pipeline.chunks = chunks;
    away.pipeline.resident_stages = stages;
    MeshPlan resident = breadth_first(plan);
    resident.pipeline.chunks = chunks;  // with one stage, the two uses of the embedding add to its gradient in turns
    CAPTURE(chunks, stages);
    CHECK(run_mesh(m, away) == run_mesh(m, resident));
  }
}

TEST_CASE("delays of a single lane change no bit with weights in host memory", "[mesh]") {
  const ModelSection m = shared_model("llama");
  MeshPlan plan{.compute = DType::bf16, .micro_batches = 4, .steps = 4};
  plan.states = plan.weights = true;
  plan.subgroup_elements = 600;
  const MeshResult resident = run_mesh(m, breadth_first(plan));
  for (const CopyLane lane : kEveryLane) {
    MeshPlan away = with_weights_away(plan, 0.5);
    away.copies = delayed({lane});
    CHECK(run_mesh(m, away) == resident);
  }
}

TEST_CASE("evaluation and repeated gradients work with weights in host memory", "[mesh]") {
  const ModelSection m = shared_model("llama");
  const auto losses = [&](const MeshPlan& plan) {
    std::vector<double> seen;
    MeshPlan p = plan;
    p.steps = 3;
    p.before_step = [&](Executor& executor, int rank, int step) {
      std::vector<Batch> batches;
      for (uint64_t i = 0; i < 3; ++i)
        batches.push_back(random_batch(m, 2, 12, 70 + static_cast<uint64_t>(step) + i, false));
      const std::vector<LossSums> sums = executor.evaluate(batches);
      const std::vector<double> rows = executor.row_losses(batches[0]);
      executor.accumulate(batches);
      const Executor::GradientChecksums marks = executor.gradient_checksums();
      executor.accumulate(batches);
      const bool same = executor.gradient_checksums() == marks;
      if (rank != 0) return;
      for (const LossSums& s : sums) seen.push_back(s.loss);
      seen.insert(seen.end(), rows.begin(), rows.end());
      seen.push_back(same ? 1 : 0);
      for (const int32_t mark : marks.reduced) seen.push_back(mark);
    };
    run_mesh(m, p);
    return seen;
  };
  for (MeshPlan plan : {MeshPlan{.compute = DType::bf16}, MeshPlan{.dp = 2, .zero = 3, .compute = DType::bf16}}) {
    CAPTURE(plan.text());
    const std::vector<double> resident = losses(breadth_first(plan));
    CHECK(losses(with_weights_away(plan, 0.5)) == resident);
    CHECK(std::ranges::none_of(resident, [](double x) { return std::isnan(x); }));
  }
}

TEST_CASE("an altered gradient sum is found with gradients in host memory, and all lanes then end", "[mesh]") {
  MeshPlan plan = with_weights_away({.dp = 2, .zero = 1, .steps = 2}, 0.5);
  plan.executor.check_sums = true;
  plan.copies = delayed(kEveryLane);
  plan.before_step = [](Executor& executor, int rank, int step) {
    if (rank == 1 && step == 2) executor.flip(Executor::Flipped::sums, {0, 30});
  };
  CHECK_THROWS_WITH(run_mesh(shared_model("llama"), plan), Catch::Contains("is not the sum of the contributions"));
}

TEST_CASE("the dry run predicts both arenas with weights in host memory to the byte", "[mesh]") {
  const ModelSection m = deep_model("gpt", 4);
  for (MeshPlan plan : {MeshPlan{.micro_batches = 4}, MeshPlan{.dp = 2}, MeshPlan{.dp = 2, .zero = 1},
                        MeshPlan{.tp = 2, .dp = 2, .zero = 3}})
    for (const double share : {0.0, 0.5, 1.0})
      for (const bool inputs : {false, true}) {
        plan.compute = share == 1 ? DType::f32 : DType::bf16;
        plan.gradients = share == 0 ? DType::bf16 : DType::f32;
        plan.recompute = inputs ? Recompute::full : Recompute::none;
        plan.offload_inputs = inputs;
        plan.subgroup_elements = 1000;
        plan.steps = 2;
        MeshPlan away = with_weights_away(plan, share);
        away.poison = false;  // it uses all memory of the arenas
        CAPTURE(plan.text(), share, inputs);
        const MeshResult real = run_mesh(m, away), counted = count_mesh(m, away);
        CHECK(real.peaks == counted.peaks);
        CHECK(real.host_peaks == counted.host_peaks);
      }
}

TEST_CASE("device memory for weights and gradients does not grow with depth when they are in host memory", "[mesh]") {
  MeshPlan plan = with_weights_away({.compute = DType::bf16, .micro_batches = 2, .steps = 1}, 0);
  const auto bytes = [&](int64_t layers) {
    const MeshResult r = count_mesh(deep_model("llama", layers), plan);
    return std::pair{r.classes[0][static_cast<size_t>(MemoryClass::parameters)] +
                         r.classes[0][static_cast<size_t>(MemoryClass::gradients)],
                     r.host_peaks[0]};
  };
  const auto [few, host_of_few] = bytes(8);
  const auto [many, host_of_many] = bytes(16);
  CHECK(many == few);
  ParamTable table;
  declare_parameters(deep_model("llama", 1), table);
  const int64_t layer = table.units()[static_cast<size_t>(table.layer_unit(0))].elements;
  CHECK(host_of_many - host_of_few == static_cast<size_t>(8 * layer * (2 + 4 + 4 + 8)));
}

TEST_CASE("activations of many micro-batches wait in host memory between layers", "[mesh]") {
  const ModelSection m = deep_model("llama", 6);
  const auto peaks = [&](int64_t micro_batches) {
    MeshPlan plan = breadth_first({.recompute = Recompute::full, .micro_batches = micro_batches, .steps = 1});
    plan.samples = micro_batches;
    plan.length = 64;
    plan.offload_inputs = true;
    const MeshResult r = count_mesh(m, plan);
    return std::pair{r.peaks[0], r.host_peaks[0]};
  };
  const size_t input = static_cast<size_t>(64 * m.hidden) * sizeof(float);
  const auto [few, host_of_few] = peaks(8);
  const auto [many, host_of_many] = peaks(16);
  CHECK(many - few < 8 * input / 4);  // tokens and losses
  // The inputs of all layers, the output of the last, and what waits between two of them.
  CHECK(host_of_many - host_of_few >= 8 * 7 * input);
  CHECK(host_of_many - host_of_few <= 8 * 9 * input);
}
