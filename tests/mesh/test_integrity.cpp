// The checks of a step find flipped bits, and report nothing when none is flipped.
#include <catch2/catch.hpp>

#include "mesh/mesh_run.h"

using namespace fp;
using namespace fp::test;

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

// Returns the error of a run in whose step 2 a bit flips on rank 1; empty: none.
std::string error_of(MeshPlan plan, Executor::Flipped what, const BitFlip& flip) {
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

TEST_CASE("the reduction check accepts correct gradients on every mesh and changes no result", "[mesh]") {
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

TEST_CASE("an altered sum of gradients is found in its step", "[mesh]") {
  for (const int zero : {0, 1, 2, 3}) {
    CAPTURE(zero);
    const std::string text = error_of(checked_plan(2, zero), Executor::Flipped::sums, {0, 30});
    CHECK_THAT(text, Catch::Contains("is not the sum of the contributions"));
    CHECK_THAT(text, Catch::Contains("summed over 2 data ranks"));
  }
}

TEST_CASE("a flip of the lowest bit of a sum is within rounding and not reported", "[mesh]") {
  CHECK(error_of(checked_plan(2, 2), Executor::Flipped::sums, {0, 0}).empty());
}

TEST_CASE("the reduction check does not find gradients that a rank computed wrong", "[mesh]") {
  for (const int zero : {0, 2}) {
    CAPTURE(zero);
    CHECK(error_of(checked_plan(2, zero), Executor::Flipped::gradients, {0, 30}).empty());
  }
}

TEST_CASE("repeated gradients have equal marks unless a bit flips", "[mesh]") {
  for (const int bit : {20, 30, 31}) {  // too high for the rounding of a sum to hide
    CAPTURE(bit);
    std::vector<Executor::GradientChecksums> marks(4);
    for (const bool flips : {false, true}) {
      MeshPlan plan = checked_plan(2, 2);
      plan.steps = 1;
      plan.after_gradients = [&](Executor& executor, int rank) {
        marks[static_cast<size_t>(2 * rank + (flips ? 1 : 0))] = executor.gradient_checksums();
      };
      if (flips)
        plan.before_step = [&](Executor& executor, int rank, int) {
          if (rank == 1) executor.flip(Executor::Flipped::gradients, {3, bit});
        };
      run_mesh(shared_model("llama"), plan);
    }
    CHECK(marks[0].contributed == marks[1].contributed);
    CHECK((marks[0].reduced != marks[1].reduced || marks[2].reduced != marks[3].reduced));
    CHECK(marks[2].contributed != marks[3].contributed);
  }
}
