// Calls that exceed the limits of a GPU are refused before a kernel starts.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "cuda/ops/cuda_ops.h"

using namespace fp;

TEST_CASE("norm refuses rows that exceed shared memory, and reports its size") {
  CudaOps ops(0);
  const auto at = [](const Shape& s) { return Tensor(reinterpret_cast<void*>(uintptr_t{1} << 60), DType::f32, s); };
  const Tensor x = at({3, 60000}), gain = at({60000}), stats = at({3, 2});
  CHECK_THROWS_AS(ops.norm({x, {}, stats, x, {}, gain, {}, {}}), ConfigError);
  CHECK_THROWS_WITH(ops.norm({x, {}, stats, x, {}, gain, {}, {}}), Catch::Contains("240000 bytes of shared memory"));
  CHECK_THROWS_WITH(ops.norm_backward_input({x, x, x, stats, gain, {}, Write::set}),
                    Catch::Contains("norm_backward_input") && Catch::Contains("480000 bytes"));
}

TEST_CASE("permute refuses more moves than a launch supports") {
  CudaOps ops(0);
  const auto at = [](const Shape& s) { return Tensor(reinterpret_cast<void*>(uintptr_t{1} << 60), DType::bf16, s); };
  const std::vector<int> transposed{1, 0}, rows{1, 0, 2};
  CHECK_THROWS_AS(ops.permute({at({1 << 16, 1 << 15}), at({1 << 15, 1 << 16}), transposed}), ConfigError);
  CHECK_THROWS_WITH(ops.permute({at({2, 1 << 20, 8192}), at({1 << 20, 2, 8192}), rows}), Catch::Contains("2147483648"));
}
