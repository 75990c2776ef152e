// Memory of a rank under ZeRO: kept state follows the published table, and the peak of a step equals the dry run's.
#include <catch2/catch.hpp>

#include "comm/counting.h"
#include "mesh/mesh_run.h"
#include "ops/counting.h"

using namespace fp;
using namespace fp::test;

namespace {

// Bytes per parameter that each of `n` data ranks keeps: weights w, gradients g, and 12 of fp32 master weights and
// moments (8 where the weights are the master weights).
double bytes_per_parameter(int zero, double w, double g, double n) {
  const double state = w == 4 ? 8 : 12;
  const double shared = (zero >= 1 ? state : 0) + (zero >= 2 ? g : 0) + (zero >= 3 ? w : 0);
  return w + g + state - shared + shared / n;
}

}  // namespace

TEST_CASE("bytes per parameter equal those of the ZeRO paper", "[mesh]") {
  // 16P, 4P + 12P/N, 2P + 14P/N, 16P/N of the paper, with bf16 gradients.
  const double n = 8;
  CHECK(bytes_per_parameter(0, 2, 2, n) == 16);
  CHECK(bytes_per_parameter(1, 2, 2, n) == 4 + 12 / n);
  CHECK(bytes_per_parameter(2, 2, 2, n) == 2 + 14 / n);
  CHECK(bytes_per_parameter(3, 2, 2, n) == 16 / n);
}

TEST_CASE("the state of a rank has the size in the ZeRO table", "[mesh]") {
  const int zero = GENERATE(0, 1, 2, 3), ranks = GENERATE(1, 2, 8), tp = GENERATE(1, 2);
  const auto [compute, gradients] = GENERATE(std::pair(DType::f32, DType::f32), std::pair(DType::bf16, DType::f32),
                                             std::pair(DType::bf16, DType::bf16));
  ModelSection m = shared_model("llama");
  m.hidden = 512;
  m.head_dim = 64;
  m.ffn = 1024;
  m.vocab = 4096;
  const auto ops = make_counting_ops();
  const auto world = make_counting_world(0, ranks * tp);
  Arena arena;
  const Groups groups = make_groups(*world, Mesh(1, ranks, 1, tp, ranks * tp));
  ModelOptions options;
  options.compute = compute;
  options.gradients = gradients;
  options.zero_stage = zero;
  options.positions = 1;
  const Model model(m, options, *ops, arena, groups);
  double parameters = 0;  // on this rank, without the padding of rows and units
  for (const Param& p : model.table()) parameters += static_cast<double>(p.local_elements());
  const double expected = parameters * bytes_per_parameter(zero, static_cast<double>(size_of(compute)),
                                                           static_cast<double>(size_of(gradients)), ranks);
  CAPTURE(zero, ranks, tp, name_of(compute), name_of(gradients));
  CHECK(static_cast<double>(arena.in_use()) == Approx(expected).epsilon(0.01));
}

TEST_CASE("the dry run predicts the peak memory of every rank", "[mesh]") {
  const int zero = GENERATE(0, 1, 2, 3);
  const auto [compute, gradients] = GENERATE(std::pair(DType::f32, DType::f32), std::pair(DType::bf16, DType::bf16));
  ModelSection m = shared_model(GENERATE("gpt", "llama", "phi3"));
  for (const auto& [tp, sp, dp, megatron] :
       {std::tuple(2, 2, 2, true), std::tuple(1, 4, 2, false), std::tuple(4, 1, 2, true)}) {
    MeshPlan p{tp, sp, dp, zero, megatron, Recompute::selective};
    p.compute = compute;
    p.gradients = gradients;
    p.steps = 2;
    CAPTURE(p.text());
    const MeshResult real = run_mesh(m, p), counted = count_mesh(m, p);
    CHECK(real.peaks == counted.peaks);
    CHECK(real.traffic == counted.traffic);
  }
}
