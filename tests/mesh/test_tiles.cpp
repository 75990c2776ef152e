// The MLP in tiles of tokens trains like the MLP of all tokens at once, on every mesh, in less memory.
#include <catch2/catch.hpp>

#include "mesh/mesh_run.h"

using namespace fp;
using namespace fp::test;

TEST_CASE("an MLP in tiles trains like one of all tokens at once, under any recomputation", "[mesh]") {
  const auto check = [](const char* family, Recompute recompute, int64_t tile) {
    MeshPlan plan{.recompute = recompute};
    plan.mlp_tile = tile;
    CAPTURE(family, tile);
    const ModelSection m = shared_model(family);
    check_trains_like(m, plan, run_mesh(m, {}));
  };
  check("gpt", Recompute::none, 7);
  check("gpt", Recompute::full, 1000);
  check("llama", Recompute::selective, 7);
}

// The CPU has another kernel for products of up to four rows, whose sums have another order.
TEST_CASE("the MLP in tiles has the same forward bits", "[mesh]") {
  for (const char* const family : {"gpt", "phi3"})
    for (const DType compute : {DType::f32, DType::bf16}) {
      MeshPlan plan{.compute = compute, .steps = 1};
      const ModelSection m = shared_model(family);
      const MeshResult whole = run_mesh(m, plan);
      for (const int64_t tile : {6, 7, 11, 24}) {
        plan.mlp_tile = tile;
        CAPTURE(family, name_of(compute), tile);
        CHECK(run_mesh(m, plan).losses == whole.losses);
      }
    }
}

namespace {

void check_tiles(const std::vector<MeshPlan>& plans) {
  ModelSection m = shared_model("llama");
  m.layers = 4;
  const MeshResult one = run_mesh(m, MeshPlan{});
  for (MeshPlan p : plans) {
    p.mlp_tile = 7;
    check_trains_like(m, p, one);
  }
}

}  // namespace

TEST_CASE("an MLP in tiles trains like one rank on a mesh, and with split weight gradients under ZeRO 3", "[mesh]") {
  check_tiles({MeshPlan{.tp = 2, .sp = 2, .dp = 2, .zero = 2, .megatron = true},
               piped(PipelineSchedule::zb_v, {.dp = 2, .zero = 3})});
}

TEST_CASE("an MLP in tiles trains like one rank on every axis", "[mesh][nightly]") {
  std::vector<MeshPlan> plans{MeshPlan{.tp = 2, .megatron = true}, MeshPlan{.sp = 2}, MeshPlan{.dp = 2, .zero = 3}};
  for (const PipelineSchedule s : {PipelineSchedule::one_f_one_b, PipelineSchedule::zb_h1, PipelineSchedule::zb_v,
                                   PipelineSchedule::bitpipe, PipelineSchedule::zeropp})
    for (const MeshPlan& p : {MeshPlan{}, MeshPlan{.dp = 2, .zero = 2}, MeshPlan{.dp = 2, .zero = 3}})
      plans.push_back(piped(s, p));
  check_tiles(plans);
}

TEST_CASE("tiles bound the memory of an MLP, as the dry run predicts", "[mesh]") {
  ModelSection m = shared_model("llama");
  m.ffn = 640;
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    MeshPlan plan{.recompute = recompute, .length = 64, .samples = 8, .steps = 2};
    const size_t whole = count_mesh(m, plan).peaks[0];
    plan.mlp_tile = 16;
    const MeshResult real = run_mesh(m, plan), counted = count_mesh(m, plan);
    CHECK(real.peaks == counted.peaks);
    // Of 256 rows, u (two inputs of SwiGLU) and g are kept only for 16.
    const size_t wide = static_cast<size_t>((256 - 16) * 3 * m.ffn) * sizeof(float);
    CHECK(whole - real.peaks[0] >= wide);
  }
}
