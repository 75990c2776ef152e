// Whole models on the CUDA backend under test: they train like the oracle.
#include <catch2/catch.hpp>

#include "cuda/ops/cuda_ops.h"
#include "cuda_host/execution.h"
#include "exec/rig.h"

using namespace fp;
using namespace fp::test;

namespace {

constexpr size_t kBytes = size_t{4} << 20;

ModelSection with_dropout(ModelSection m) {
  m.dropout_embedding = m.dropout_attention = m.dropout_residual = m.dropout_ffn = 0.1;
  return m;
}

std::vector<double> losses_of(Rig& rig, const ModelSection& m, int steps) {
  std::vector<double> losses;
  const OptimizerSection optimizer;
  for (int step = 1; step <= steps; ++step) {
    const std::vector<Batch> batches{random_batch(m, 2, 20, static_cast<uint64_t>(step), step % 2 == 0)};
    losses.push_back(rig.executor.accumulate(batches).mean());
    const GradientNorm g = rig.executor.gradient_norm();
    REQUIRE(g.finite);
    rig.executor.update(optimizer, 1e-3, step, g.norm);
  }
  return losses;
}

std::vector<double> on_cuda(const ModelSection& m, DType compute, Recompute recompute, int steps, uint64_t order,
                            bool offload = false, double device_share = 1, bool offload_weights = false) {
  cuda::host::set_seed(order);
  auto ops = std::make_unique<CudaOps>(0, make_cpu_ops());
  ops->reserve_scratch(size_t{1} << 20);
  Rig rig(std::move(ops), m, compute, recompute, {.device_share = device_share}, 32, kBytes, offload, offload_weights);
  const auto losses = losses_of(rig, m, steps);
  CHECK(cuda::host::take_problems() == "");
  return losses;
}

void check_losses(const std::string& model, int steps) {
  CAPTURE(model);
  const ModelSection m = with_dropout(tiny_model(model));
  Rig ref(make_ref_ops(), m, DType::f32);
  const auto expected = losses_of(ref, m, steps), got = on_cuda(m, DType::f32, Recompute::none, steps, 1);
  for (size_t i = 0; i < expected.size(); ++i) CHECK(got[i] == Approx(expected[i]).epsilon(1e-5));
}

}  // namespace

TEST_CASE("training on cuda-host has the losses of the oracle") { check_losses(GENERATE(from_range(tiny_names())), 6); }

TEST_CASE("twenty training steps on cuda-host have the losses of the oracle", "[nightly]") {
  check_losses(GENERATE(from_range(tiny_names())), 20);
}

TEST_CASE("bf16 training on cuda-host has the same bits in any thread order, and is close to the oracle") {
  const std::string name = GENERATE(from_range(tiny_names()));
  CAPTURE(name);
  const ModelSection m = with_dropout(tiny_model(name));
  const auto one = on_cuda(m, DType::bf16, Recompute::none, 4, 1), two = on_cuda(m, DType::bf16, Recompute::none, 4, 2);
  CHECK(one == two);
  CHECK(on_cuda(m, DType::bf16, Recompute::full, 4, 3) == one);
  Rig ref(make_ref_ops(), m, DType::bf16);
  const auto expected = losses_of(ref, m, 4);
  for (size_t i = 0; i < expected.size(); ++i)
    CHECK(one[i] == Approx(expected[i]).epsilon(8 * epsilon_of(DType::bf16)));
}

TEST_CASE("training on cuda-host has the same bits with state, weights and layer inputs in host memory") {
  const ModelSection m = tiny_model("llama");
  for (const DType compute : {DType::f32, DType::bf16})
    for (const bool weights : {false, true})
      CHECK(on_cuda(m, compute, Recompute::full, 4, 1, true, 1, weights) == on_cuda(m, compute, Recompute::full, 4, 1));
}

TEST_CASE("training on cuda-host with updates by the host is close to that without, and the same in any order") {
  const ModelSection m = tiny_model("llama");
  for (const DType compute : {DType::f32, DType::bf16}) {
    const auto resident = on_cuda(m, compute, Recompute::none, 4, 1);
    for (const double share : {0.0, 0.5}) {
      const auto divided = on_cuda(m, compute, Recompute::none, 4, 1, true, share);
      CHECK(on_cuda(m, compute, Recompute::none, 4, 5, true, share) == divided);
      for (size_t i = 0; i < resident.size(); ++i)
        CHECK(divided[i] == Approx(resident[i]).epsilon(8 * epsilon_of(compute)));
    }
  }
}
