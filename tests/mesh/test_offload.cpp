// The optimizer's state and the inputs of recomputed layers in host memory: the same bits as on the device, under any
// delays of the copies, and the memory that the dry run predicts.
#include <catch2/catch.hpp>
#include <cmath>

#include "base/error.h"
#include "mesh/mesh_run.h"

using namespace fp;
using namespace fp::test;

namespace {

void check_same_bits(const ModelSection& m, MeshPlan plan) {
  plan.states = true;
  CAPTURE(plan.text());
  const MeshResult resident = run_mesh(m, plan);
  plan.offload = true;
  const MeshResult offloaded = run_mesh(m, hampered(plan));
  CHECK(offloaded == resident);
  for (const auto& [name, values] : offloaded.states)
    if (std::ranges::any_of(values, [](float v) { return std::isnan(v); })) FAIL("NaN in " << name);
}

}  // namespace

TEST_CASE("training with offloaded state has the bits of training without", "[mesh]") {
  const ModelSection m = shared_model("llama");
  for (const DType compute : {DType::f32, DType::bf16}) {
    std::vector<MeshPlan> plans{MeshPlan{}, MeshPlan{.tp = 2}, MeshPlan{.sp = 2},
                                piped(PipelineSchedule::one_f_one_b, {.micro_batches = 4})};
    for (const int zero : {0, 1, 2, 3}) plans.push_back(MeshPlan{.dp = 2, .zero = zero});
    for (MeshPlan& p : plans) {
      p.compute = compute;
      check_same_bits(m, p);
    }
  }
}

TEST_CASE("offloading composes with bf16 gradients, two-way pipelines and combined axes", "[mesh]") {
  for (const char* const family : {"gpt", "phi3"}) {
    const ModelSection m = shared_model(family);
    MeshPlan narrow{.dp = 2, .zero = 2, .compute = DType::bf16, .gradients = DType::bf16};
    check_same_bits(m, narrow);
    MeshPlan all{.tp = 2, .sp = 2, .dp = 2, .zero = 3, .megatron = true, .compute = DType::bf16};
    check_same_bits(m, all);
  }
  MeshPlan two_way = piped(PipelineSchedule::bitpipe, {.micro_batches = 4});
  two_way.compute = DType::bf16;
  two_way.zero = 1;
  ModelSection m = shared_model("gpt");
  m.layers = 4;
  check_same_bits(m, two_way);
}

TEST_CASE("the size of the subgroups and the order of the copies change no bit", "[mesh]") {
  const ModelSection m = shared_model("gpt");
  MeshPlan plan{.dp = 2, .zero = 1, .compute = DType::bf16, .steps = 5};
  plan.states = true;
  const MeshResult resident = run_mesh(m, plan);
  plan.offload = true;
  plan.poison = true;
  for (const int64_t elements : {8, 1000, 1 << 22}) {
    plan.subgroup_elements = elements;
    CAPTURE(elements);
    CHECK(run_mesh(m, plan) == resident);
  }
  plan.subgroup_elements = 512;
  for (const auto& lanes : std::vector<std::vector<CopyLane>>{{CopyLane::to_host}, {CopyLane::to_device}}) {
    plan.copies = delayed(lanes);
    CHECK(run_mesh(m, plan) == resident);
  }
}

TEST_CASE("skipped updates leave offloaded state as it is, and checked sums are unaffected", "[mesh]") {
  MeshPlan plan{.dp = 2, .zero = 2, .compute = DType::bf16};
  plan.skip_every = 3;
  plan.executor.check_sums = true;
  check_same_bits(shared_model("llama"), plan);
}

TEST_CASE("an altered gradient sum is found with offloaded state, whose copies then end", "[mesh]") {
  MeshPlan plan{.dp = 2, .zero = 1, .steps = 2};
  plan.offload = true;
  plan.executor.check_sums = true;
  plan.copies = delayed({CopyLane::to_host, CopyLane::to_device});
  plan.before_step = [](Executor& executor, int rank, int step) {
    if (rank == 1 && step == 2) executor.flip(Executor::Flipped::sums, {0, 30});
  };
  CHECK_THROWS_WITH(run_mesh(shared_model("llama"), plan), Catch::Contains("is not the sum of the contributions"));
}

TEST_CASE("a bit that flips in an offloaded moment changes the parameters", "[mesh]") {
  MeshPlan plan{.steps = 3};
  plan.offload = true;
  const MeshResult without = run_mesh(shared_model("llama"), plan);
  plan.before_step = [](Executor& executor, int, int step) {
    if (step == 3) executor.flip(Executor::Flipped::moments, {17, 28});
  };
  CHECK_FALSE(run_mesh(shared_model("llama"), plan).params == without.params);
}

TEST_CASE("stochastic rounding of offloaded master weights has the same random numbers", "[mesh]") {
  MeshPlan plan{.dp = 2, .compute = DType::bf16};
  plan.executor.rounding_seed = 3;
  plan.subgroup_elements = 1000;
  check_same_bits(shared_model("llama"), plan);
}

TEST_CASE("the dry run predicts both arenas of every rank to the byte", "[mesh]") {
  const ModelSection m = shared_model("llama");
  for (const DType compute : {DType::f32, DType::bf16})
    for (MeshPlan plan :
         {MeshPlan{.dp = 2, .zero = 0}, MeshPlan{.dp = 2, .zero = 1}, MeshPlan{.tp = 2, .dp = 2, .zero = 3},
          piped(PipelineSchedule::one_f_one_b, {.micro_batches = 4})}) {
      plan.compute = compute;
      plan.offload = true;
      plan.steps = 2;
      CAPTURE(plan.text());
      const MeshResult real = run_mesh(m, plan), counted = count_mesh(m, plan);
      CHECK(real.peaks == counted.peaks);
      CHECK(real.host_peaks == counted.host_peaks);
      for (const size_t bytes : counted.host_peaks) CHECK(bytes > 0);
    }
}

TEST_CASE("offloading moves the state's bytes from the device's peak memory to the host's", "[mesh]") {
  ModelSection m = shared_model("llama");
  m.hidden = 64;
  m.head_dim = 8;
  for (const DType compute : {DType::f32, DType::bf16})
    for (const int zero : {0, 1}) {
      MeshPlan plan{.dp = 2, .zero = zero, .compute = compute, .steps = 1};
      plan.subgroup_elements = 64;  // small buffers, so that the peak is not in the update
      CAPTURE(plan.text());
      const MeshResult resident = count_mesh(m, plan);
      plan.offload = true;
      const MeshResult offloaded = count_mesh(m, plan);
      constexpr auto kOptimizer = static_cast<size_t>(MemoryClass::optimizer);
      CHECK(resident.host_peaks[0] == 0);
      CHECK(offloaded.host_peaks[0] == resident.classes[0][kOptimizer]);
      CHECK(resident.peaks[0] - offloaded.peaks[0] == offloaded.host_peaks[0]);
    }
}

// ---- inputs of recomputed layers ------------------------------------------------------------------------------------

namespace {

void check_same_bits_with_inputs_away(const ModelSection& m, MeshPlan plan) {
  plan.recompute = Recompute::full;
  plan.steps = 4;
  CAPTURE(plan.text());
  const MeshResult resident = run_mesh(m, plan);
  plan.offload_inputs = true;
  const MeshResult away = run_mesh(m, hampered(plan));
  CHECK(away == resident);
  CHECK(away.host_peaks[0] > resident.host_peaks[0]);
}

}  // namespace

TEST_CASE("training with offloaded layer inputs has the bits of training without", "[mesh]") {
  for (const char* const family : {"gpt", "phi3"})
    for (const DType compute : {DType::f32, DType::bf16})
      for (MeshPlan p :
           {MeshPlan{}, MeshPlan{.tp = 2, .megatron = true}, MeshPlan{.sp = 2}, MeshPlan{.dp = 2, .zero = 3}}) {
        p.compute = compute;
        check_same_bits_with_inputs_away(deep_model(family, 4), p);
      }
}

TEST_CASE("layer inputs are offloaded under every kind of pipeline, beside the optimizer's state", "[mesh]") {
  for (const PipelineSchedule s : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::zb_h1,
                                   PipelineSchedule::zb_v, PipelineSchedule::bitpipe}) {
    MeshPlan p = piped(s, {.micro_batches = 4});
    p.offload = true;
    check_same_bits_with_inputs_away(deep_model("llama", 8), p);
  }
}

TEST_CASE("the dry run predicts both arenas with offloaded layer inputs to the byte", "[mesh]") {
  for (MeshPlan plan : {MeshPlan{.micro_batches = 5, .samples = 5}, MeshPlan{.tp = 2, .megatron = true},
                        MeshPlan{.dp = 2, .zero = 3}, piped(PipelineSchedule::one_f_one_b, {.micro_batches = 4}),
                        piped(PipelineSchedule::zb_v, {.micro_batches = 4})}) {
    plan.recompute = Recompute::full;
    plan.offload_inputs = true;
    plan.steps = 2;
    CAPTURE(plan.text());
    const ModelSection m = deep_model("llama", 8);
    const MeshResult real = run_mesh(m, plan), counted = count_mesh(m, plan);
    CHECK(real.peaks == counted.peaks);
    CHECK(real.host_peaks == counted.host_peaks);
  }
}

TEST_CASE("device memory does not grow with depth when layer inputs are offloaded", "[mesh]") {
  MeshPlan plan{.samples = 8, .steps = 1};
  plan.length = 64;
  plan.recompute = Recompute::full;
  const auto activations = [&](int64_t layers, bool away) {
    plan.offload_inputs = away;
    const MeshResult r = count_mesh(deep_model("llama", layers), plan);
    constexpr auto kActivations = static_cast<size_t>(MemoryClass::activations);
    return std::pair{r.classes[0][kActivations], r.host_peaks[0]};
  };
  const ModelSection m = deep_model("llama", 1);
  const size_t input = static_cast<size_t>(plan.samples / plan.micro_batches * plan.length * m.hidden) * sizeof(float);
  CHECK(activations(16, false).first - activations(8, false).first == 8 * input);
  CHECK(activations(16, true).first == activations(8, true).first);
  CHECK(activations(8, true).second == 7 * input);
  CHECK(activations(16, true).second == 15 * input);
}
