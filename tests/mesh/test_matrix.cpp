// Training is the same on every mesh: losses and parameters of any (tp, sp, dp, ZeRO, Megatron-SP, recompute) equal
// those of one rank, and runs are bitwise reproducible.
#include <catch2/catch.hpp>
#include <chrono>
#include <random>
#include <thread>

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

namespace {

// Trains with rows and updated weights that are waited for where they start, and with those that arrive during
// computation, in poisoned memory and with late copies.
void check_overlap_changes_nothing(const ModelSection& m, const MeshPlan& plan) {
  MeshPlan later = plan;
  later.overlap = true;
  CAPTURE(later.text());
  MeshPlan at_once = later;
  at_once.overlap = false;
  CHECK(run_mesh(m, hampered(later)) == run_mesh(m, at_once));
  CHECK(count_mesh(m, later).peaks == count_mesh(m, at_once).peaks);
}

}  // namespace

TEST_CASE("rows and weights that arrive during computation change no bit", "[mesh]") {
  const std::string family = GENERATE("gpt", "llama");
  const ModelSection m = shared_model(family);
  for (MeshPlan plan : {MeshPlan{.dp = 2, .zero = 1}, MeshPlan{.tp = 2, .dp = 2, .zero = 2, .compute = DType::bf16},
                        MeshPlan{.sp = 2, .dp = 2, .zero = 1, .compute = DType::bf16},
                        MeshPlan{.tp = 2, .dp = 2, .zero = 1, .megatron = true, .recompute = Recompute::selective},
                        piped(PipelineSchedule::one_f_one_b, MeshPlan{.dp = 2, .zero = 1}),
                        piped(PipelineSchedule::zb_v, MeshPlan{.dp = 2, .zero = 2}),
                        piped(PipelineSchedule::chimera, MeshPlan{.zero = 1, .compute = DType::bf16})}) {
    plan.skip_every = 3;
    plan.weights = true;
    plan.tensor_pieces = 3;
    check_overlap_changes_nothing(m, plan);
  }
}

TEST_CASE("links of any speed change no bit and stop no rank", "[mesh]") {
  // Until a communication ends, up to 0.3 ms pass on each rank, and before one starts, up to 0.1 ms on every other
  // rank.
  const auto unsteady = [](World& threads) {
    return make_delayed_world(threads, [random = std::mt19937(static_cast<unsigned>(threads.rank()) + 9), &threads](
                                           CommKind, std::span<const int>, int64_t, const UnevenPieces&) mutable {
      if (threads.rank() % 2 == 1) std::this_thread::sleep_for(std::chrono::microseconds(random() % 100));
      return 1e-6 * static_cast<double>(random() % 300);
    });
  };
  const ModelSection m = deep_model("llama", 4);
  MeshPlan rows{.tp = 2, .dp = 2, .zero = 1, .megatron = true};
  rows.tensor_pieces = 2;
  MeshPlan quantized{.dp = 4, .zero = 2};
  quantized.micro_batches = 1;
  quantized.ranks_per_node = 2;
  quantized.communication = {.gradient_bits = 8, .block = 64};
  MeshPlan limited = quantized, by_nodes = quantized;
  limited.zero = 1;
  limited.communication.max_gradient_error = 0.02;  // some parameters are widened
  by_nodes.zero = 3;
  by_nodes.communication = {.by_nodes = true};
  for (const MeshPlan& plan :
       {rows, quantized, limited, by_nodes, MeshPlan{.tp = 2, .sp = 2, .zero = 3},
        MeshPlan{.tp = 2, .dp = 2, .zero = 0}, piped(PipelineSchedule::zb_v, MeshPlan{.tp = 2, .dp = 2, .zero = 2}),
        piped(PipelineSchedule::bitpipe, MeshPlan{.tp = 2, .zero = 1}),
        piped(PipelineSchedule::zeropp, MeshPlan{.dp = 2, .zero = 3})}) {
    MeshPlan slow = plan;
    slow.steps = 4;
    CAPTURE(slow.text());
    const MeshResult fast = run_mesh(m, slow);
    slow.over = unsteady;
    slow.poison = true;
    CHECK(run_mesh(m, slow) == fast);
  }
}

TEST_CASE("rows that pass between tensor-parallel ranks in pieces train like one rank", "[mesh]") {
  const std::string family = GENERATE("gpt", "llama");
  ModelSection m = shared_model(family);
  m.dropout_ffn = m.dropout_residual = family == "gpt" ? 0.1 : 0.0;
  const MeshResult one = run_mesh(m, {});
  for (const auto& [tp, megatron, recompute, tile] :
       {std::tuple(2, true, Recompute::none, 0), std::tuple(4, true, Recompute::selective, 0),
        std::tuple(2, true, Recompute::full, 0), std::tuple(2, true, Recompute::selective, 5),
        std::tuple(2, false, Recompute::none, 0), std::tuple(2, false, Recompute::full, 5)}) {
    MeshPlan p{.tp = tp, .megatron = megatron, .recompute = recompute};
    p.mlp_tile = tile;
    p.tensor_pieces = 3;
    p.poison = true;
    check_trains_like(m, p, one);
    p.poison = false;
    CHECK(count_mesh(m, p).peaks == run_mesh(m, p).peaks);
    // Without Megatron sequence parallelism the rows stay in their order.
    MeshPlan at_once = p;
    at_once.tensor_pieces = 1;
    if (!megatron) CHECK(run_mesh(m, p) == run_mesh(m, at_once));
  }
  // With the weight gradients of a pipeline's schedule apart from those of the input.
  MeshPlan piped_rows = piped(PipelineSchedule::zb_v, MeshPlan{.tp = 2, .megatron = true});
  piped_rows.tensor_pieces = 4;
  check_trains_like(m, piped_rows, one);
}

TEST_CASE("every mesh of up to 8 ranks trains like one rank", "[mesh][nightly]") {
  const std::string family = GENERATE("gpt", "llama", "phi3", "qwen3");
  const ModelSection m = shared_model(family);
  const MeshResult one = run_mesh(m, {});
  INFO(family);
  for (const MeshPlan& plan : all_plans()) check_trains_like(m, plan, one);
}

TEST_CASE("overlap changes no bit on any mesh of up to 8 ranks", "[mesh][nightly]") {
  const std::string family = GENERATE("gpt", "llama");
  const ModelSection m = shared_model(family);
  INFO(family);
  for (MeshPlan plan : all_plans()) {
    plan.tensor_pieces = 3;
    plan.compute = plan.zero == 2 ? DType::bf16 : DType::f32;
    check_overlap_changes_nothing(m, plan);
  }
}
