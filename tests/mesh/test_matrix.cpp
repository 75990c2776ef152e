// Training is the same on every mesh: losses and parameters of any (tp, sp, dp, ZeRO, Megatron-SP, recompute) equal
// those of one rank, and runs are bitwise reproducible.
#include <catch2/catch.hpp>

#include "mesh/mesh_run.h"

using namespace fp;
using namespace fp::test;

TEST_CASE("a mesh trains like one rank", "[mesh]") {
  const std::string family = GENERATE("gpt", "llama", "phi3");
  const ModelSection m = shared_model(family);
  const MeshResult one = run_mesh(m, {});
  INFO(family);
  for (const MeshPlan& plan : {MeshPlan{2, 2, 2, 3, true}, MeshPlan{1, 4, 2, 2}, MeshPlan{4, 1, 2, 1},
                               MeshPlan{2, 1, 1, 0, true, Recompute::selective}, MeshPlan{1, 1, 2, 0}})
    check_trains_like(m, plan, one);
}

TEST_CASE("weights that arrive during the next forward pass change no bit", "[mesh]") {
  const std::string family = GENERATE("gpt", "llama");
  const ModelSection m = shared_model(family);
  for (const MeshPlan& plan :
       {MeshPlan{.dp = 2, .zero = 1}, MeshPlan{.tp = 2, .dp = 2, .zero = 2, .compute = DType::bf16},
        MeshPlan{.sp = 2, .dp = 2, .zero = 1, .compute = DType::bf16},
        piped(PipelineSchedule::one_f_one_b, MeshPlan{.dp = 2, .zero = 1}),
        piped(PipelineSchedule::zb_v, MeshPlan{.dp = 2, .zero = 2}),
        piped(PipelineSchedule::chimera, MeshPlan{.zero = 1, .compute = DType::bf16})}) {
    MeshPlan later = plan;
    later.executor.overlap = true;
    later.skip_every = 3;
    later.weights = true;
    CAPTURE(later.text());
    MeshPlan at_once = later;
    at_once.executor.overlap = false;
    CHECK(run_mesh(m, hampered(later)) == run_mesh(m, at_once));
    CHECK(count_mesh(m, later).peaks == count_mesh(m, at_once).peaks);
  }
}

TEST_CASE("every mesh of up to 8 ranks trains like one rank", "[mesh][nightly]") {
  const std::string family = GENERATE("gpt", "llama", "phi3", "qwen3");
  const ModelSection m = shared_model(family);
  const MeshResult one = run_mesh(m, {});
  INFO(family);
  for (const MeshPlan& plan : all_plans()) check_trains_like(m, plan, one);
}
