// Offloaded state of which a part is updated by the host: the same bits for every share, under any delays of copies and
// of the host, and the memory that the dry run predicts.
#include <catch2/catch.hpp>
#include <cmath>

#include "base/error.h"
#include "mesh/mesh_run.h"

using namespace fp;
using namespace fp::test;

namespace {

constexpr double kShares[] = {0, 0.25, 0.5, 2.0 / 3, 0.75, 1};

const std::vector<CopyLane> kAllLanes = {CopyLane::to_host, CopyLane::to_device, CopyLane::on_host};

// Compares all shares with state on the device, with NaN in all memory that nobody may read.
void check_shares(const ModelSection& m, MeshPlan plan) {
  plan.states = plan.weights = true;
  CAPTURE(plan.text());
  const MeshResult resident = run_mesh(m, plan);
  plan.offload = plan.poison = true;
  for (const double share : kShares) {
    plan.device_share = share;
    plan.copies = share == 0.5 || share == 0 ? delayed(kAllLanes) : CopySettings{};
    CAPTURE(share);
    const MeshResult divided = run_mesh(m, plan);
    CHECK(divided == resident);
    for (const auto& [name, values] : divided.states)
      if (std::ranges::any_of(values, [](float v) { return std::isnan(v); })) FAIL("NaN in " << name);
  }
  plan.executor.synchronous_update = true;
  CHECK(run_mesh(m, plan) == resident);
}

}  // namespace

TEST_CASE("every share of updates on the device has the bits of state on the device", "[mesh][slow]") {
  const ModelSection m = shared_model("llama");
  for (const DType compute : {DType::bf16, DType::f32})
    for (MeshPlan p : {MeshPlan{}, MeshPlan{.dp = 2, .zero = 1}, MeshPlan{.dp = 2, .zero = 3}}) {
      p.compute = compute;
      p.subgroup_elements = 1000;
      check_shares(m, p);
    }
}

TEST_CASE("shares compose with bf16 gradients, Lion, tensor parallelism and pipelines", "[mesh]") {
  const ModelSection m = shared_model("gpt");
  MeshPlan narrow{.dp = 2, .zero = 2, .compute = DType::bf16, .gradients = DType::bf16, .steps = 8};
  check_shares(m, narrow);
  MeshPlan lion{.tp = 2, .compute = DType::bf16, .steps = 8};
  lion.optimizer.kind = OptimizerKind::lion;
  check_shares(m, lion);
  MeshPlan stages = piped(PipelineSchedule::one_f_one_b, {.micro_batches = 4, .steps = 8});
  stages.compute = DType::bf16;
  check_shares(m, stages);
}

TEST_CASE("gradients that are sent during the backward pass have the same bits", "[mesh][slow]") {
  const ModelSection m = shared_model("gpt");
  MeshPlan clipped{.dp = 2, .zero = 2, .compute = DType::bf16, .gradients = DType::bf16, .steps = 8};
  clipped.optimizer.grad_clip = 0.05;
  clipped.skip_every = 3;
  clipped.executor.check_sums = true;
  MeshPlan stages = piped(PipelineSchedule::one_f_one_b, {.compute = DType::bf16, .micro_batches = 4, .steps = 8});
  MeshPlan two_way = piped(PipelineSchedule::bitpipe, {.zero = 1, .micro_batches = 4, .steps = 8});
  ModelSection deep = m;
  deep.layers = 4;
  for (MeshPlan p : {MeshPlan{.steps = 8}, MeshPlan{.tp = 2, .dp = 2, .zero = 3, .steps = 8},
                     MeshPlan{.dp = 2, .compute = DType::bf16, .steps = 8}, clipped, stages, two_way}) {
    p.early_gradients = true;
    p.subgroup_elements = 1000;
    check_shares(deep, p);
  }
}

TEST_CASE("the number and size of the subgroups change no bit, also where the last is smaller", "[mesh]") {
  const ModelSection m = shared_model("gpt");
  MeshPlan plan{.dp = 2, .zero = 1, .compute = DType::bf16, .steps = 4};
  plan.states = plan.weights = true;
  const MeshResult resident = run_mesh(m, plan);
  plan.offload = plan.poison = true;
  for (const int64_t elements : {40, 1016, 5000, 1 << 22})
    for (const double share : {0.0, 0.4, 0.75}) {
      plan.subgroup_elements = elements;
      plan.device_share = share;
      CAPTURE(elements, share);
      CHECK(run_mesh(m, plan) == resident);
    }
}

TEST_CASE("delays of single lanes change no bit", "[mesh]") {
  const ModelSection m = shared_model("llama");
  MeshPlan plan{.compute = DType::bf16, .steps = 4};
  plan.states = plan.weights = true;
  plan.subgroup_elements = 600;
  const MeshResult resident = run_mesh(m, plan);
  plan.offload = plan.poison = true;
  plan.device_share = 0.5;
  for (const CopyLane lane : kAllLanes) {
    plan.copies = delayed({lane});
    CHECK(run_mesh(m, plan) == resident);
  }
}

TEST_CASE("skipped and clipped updates, checked sums and stochastic rounding work with every share", "[mesh]") {
  const ModelSection m = shared_model("llama");
  MeshPlan skipped{.dp = 2, .zero = 2, .compute = DType::bf16, .steps = 10};
  skipped.skip_every = 3;
  skipped.executor.check_sums = true;
  skipped.optimizer.grad_clip = 0.05;  // less than the norms
  check_shares(m, skipped);
  MeshPlan rounded{.dp = 2, .compute = DType::bf16, .steps = 10};
  rounded.executor.rounding_seed = 3;
  rounded.subgroup_elements = 1000;
  check_shares(m, rounded);
}

TEST_CASE("an altered gradient sum is found where the host updates, and all lanes then end", "[mesh]") {
  MeshPlan plan{.dp = 2, .zero = 1, .steps = 2};
  plan.offload = true;
  plan.device_share = 0;
  plan.executor.check_sums = true;
  plan.copies = delayed(kAllLanes);
  plan.before_step = [](Executor& executor, int rank, int step) {
    if (rank == 1 && step == 2) executor.flip(Executor::Flipped::sums, {0, 30});
  };
  CHECK_THROWS_WITH(run_mesh(shared_model("llama"), plan), Catch::Contains("is not the sum of the contributions"));
}

TEST_CASE("a bit that flips in a moment that the host updates changes the parameters", "[mesh]") {
  MeshPlan plan{.steps = 3};
  plan.offload = true;
  plan.device_share = 0;
  const MeshResult without = run_mesh(shared_model("llama"), plan);
  plan.before_step = [](Executor& executor, int, int step) {
    if (step == 3) executor.flip(Executor::Flipped::moments, {17, 28});
  };
  CHECK_FALSE(run_mesh(shared_model("llama"), plan).params == without.params);
}

TEST_CASE("the dry run predicts both arenas to the byte for every share", "[mesh]") {
  const ModelSection m = shared_model("llama");
  for (const DType gradients : {DType::f32, DType::bf16})
    for (MeshPlan plan :
         {MeshPlan{.dp = 2, .zero = 0}, MeshPlan{.dp = 2, .zero = 1}, MeshPlan{.tp = 2, .dp = 2, .zero = 3}})
      for (const double share : {0.0, 0.5, 1.0}) {
        plan.compute = DType::bf16;
        plan.gradients = gradients;
        plan.early_gradients = gradients == DType::bf16;
        plan.offload = true;
        plan.device_share = share;
        plan.subgroup_elements = 1000;
        plan.steps = 2;
        CAPTURE(plan.text(), share);
        const MeshResult real = run_mesh(m, plan), counted = count_mesh(m, plan);
        CHECK(real.peaks == counted.peaks);
        CHECK(real.host_peaks == counted.host_peaks);
      }
}

TEST_CASE("without a share on the device, no state passes through its memory", "[mesh]") {
  const ModelSection m = shared_model("llama");
  MeshPlan plan{.compute = DType::bf16, .steps = 1};
  plan.offload = true;
  const auto optimizer_bytes = [&](double share) {
    plan.device_share = share;
    return count_mesh(m, plan).classes[0][static_cast<size_t>(MemoryClass::optimizer)];
  };
  CHECK(optimizer_bytes(1) > 0);
  CHECK(optimizer_bytes(0) == 0);
}

TEST_CASE("muon with a part of the updates on the host is refused", "[mesh]") {
  MeshPlan plan{.steps = 1};
  plan.optimizer.kind = OptimizerKind::muon;
  plan.offload = true;
  plan.device_share = 0.5;
  CHECK_THROWS_WITH(run_mesh(shared_model("llama"), plan), Catch::Contains("matrices are updated on the device"));
}
