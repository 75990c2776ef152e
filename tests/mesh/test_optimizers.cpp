// The optimizers other than AdamW, which the other files use.
#include <catch2/catch.hpp>

#include "mesh/mesh_run.h"

using namespace fp;
using namespace fp::test;

TEST_CASE("lion has the same bits under every ZeRO stage and with offloaded state", "[mesh]") {
  const ModelSection m = shared_model("llama");
  for (const DType compute : {DType::f32, DType::bf16}) {
    // Where a sign depends on the order of a sum, whole steps do; with one micro-batch and no norm there is one order.
    MeshPlan plan{.dp = 2, .compute = compute, .micro_batches = 1, .steps = 8, .lr = 1e-3};
    plan.optimizer.kind = OptimizerKind::lion;
    plan.optimizer.grad_clip = 0;
    plan.states = true;
    const MeshResult zero_0 = run_mesh(m, plan);
    CHECK(zero_0.states.size() == zero_0.params.size());
    for (const int zero : {1, 2, 3}) {
      plan.zero = zero;
      for (const bool offload : {false, true}) {
        plan.offload = offload;
        CAPTURE(plan.text(), offload);
        const MeshResult other = run_mesh(m, plan);
        CHECK(other.params == zero_0.params);
        CHECK(other.states == zero_0.states);
      }
    }
  }
}
