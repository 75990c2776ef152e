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

TEST_CASE("every mesh of up to 8 ranks trains like one rank", "[mesh][nightly]") {
  const std::string family = GENERATE("gpt", "llama", "phi3", "qwen3");
  const ModelSection m = shared_model(family);
  const MeshResult one = run_mesh(m, {});
  INFO(family);
  for (const MeshPlan& plan : all_plans()) check_trains_like(m, plan, one);
}
