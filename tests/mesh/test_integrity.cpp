// What the checks of a step find when a bit flips, and that they find nothing when none does.
#include <catch2/catch.hpp>

#include "mesh/mesh_run.h"

using namespace fp;
using namespace fp::testing;

namespace {

MeshPlan checked_plan(int dp, int zero, DType gradients = DType::f32) {
  MeshPlan plan;
  plan.dp = dp;
  plan.zero = zero;
  plan.gradients = gradients;
  plan.samples = 2 * dp;
  plan.steps = 3;
  plan.executor.check_sums = true;
  return plan;
}

// What a run says in whose step 2 a bit flips on rank 1; empty: it ended well.
std::string said(MeshPlan plan, Executor::Flipped what, const BitFlip& flip) {
  plan.before_step = [&](Executor& executor, int rank, int step) {
    if (rank == 1 && step == 2) executor.flip(what, flip);
  };
  try {
    run_mesh(shared_model("llama"), plan);
  } catch (const DeviceError& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEST_CASE("sums of gradients over data ranks prove right on every mesh, and the check changes nothing", "[mesh]") {
  for (const int dp : {2, 3})
    for (const int zero : {0, 1, 2, 3})
      for (const DType gradients : {DType::f32, DType::bf16}) {
        if (gradients == DType::bf16 && dp == 3) continue;
        MeshPlan plan = checked_plan(dp, zero, gradients);
        CAPTURE(plan.text());
        const MeshResult with = run_mesh(shared_model("llama"), plan);
        plan.executor.check_sums = false;
        CHECK(with == run_mesh(shared_model("llama"), plan));
      }
}

TEST_CASE("a sum of gradients that is altered on its way is found in its step", "[mesh]") {
  for (const int zero : {0, 1, 2, 3}) {
    CAPTURE(zero);
    const std::string text = said(checked_plan(2, zero), Executor::Flipped::sums, {0, 30});
    CHECK_THAT(text, Catch::Contains("is not the sum of what they gave"));
    CHECK_THAT(text, Catch::Contains("summed over 2 data ranks"));
  }
}

TEST_CASE("a lowest bit of a sum of gradients passes for rounding", "[mesh]") {
  CHECK(said(checked_plan(2, 2), Executor::Flipped::sums, {0, 0}).empty());
}

TEST_CASE("what a rank computes wrong is found only by computing it again", "[mesh]") {
  for (const int zero : {0, 2}) {
    CAPTURE(zero);
    CHECK(said(checked_plan(2, zero), Executor::Flipped::gradients, {0, 30}).empty());
  }
}

TEST_CASE("gradients computed twice leave the same marks, and those of a rank whose bit flipped do not", "[mesh]") {
  for (const int bit : {20, 30, 31}) {  // none that the rounding of a sum may hide
    CAPTURE(bit);
    std::vector<Executor::GradientMarks> marks(4);
    for (const bool flips : {false, true}) {
      MeshPlan plan = checked_plan(2, 2);
      plan.steps = 1;
      plan.after_gradients = [&](Executor& executor, int rank) {
        marks[static_cast<size_t>(2 * rank + (flips ? 1 : 0))] = executor.gradient_marks();
      };
      if (flips)
        plan.before_step = [&](Executor& executor, int rank, int) {
          if (rank == 1) executor.flip(Executor::Flipped::gradients, {3, bit});
        };
      run_mesh(shared_model("llama"), plan);
    }
    CHECK(marks[0].given == marks[1].given);
    CHECK((marks[0].held != marks[1].held || marks[2].held != marks[3].held));
    CHECK(marks[2].given != marks[3].given);
  }
}
