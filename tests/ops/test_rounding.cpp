#include <catch2/catch.hpp>
#include <limits>

#include "base/error.h"
#include "compare.h"
#include "operands.h"

using namespace fp;
using namespace fp::test;

TEST_CASE("round_stochastically gives the oracle's bits") {
  for (const int64_t n : {1, 7, 8, 9, 64, 1030, 5000}) {
    INFO(n);
    Case c;
    const Operand& x = c.input("x", DType::f32, {n}, [](double normal, int64_t i) {
      return i % 11 == 10 ? std::numeric_limits<double>::infinity() : i % 13 == 12 ? std::nan("") : normal;
    });
    const Operand& y = c.output("y", DType::bf16, {n});
    const StochasticRounding r{7, Philox::name_id("some.weight"), 3};
    c.check(
        [&](Ops& ops) {
          ops.round_stochastically({y, x, r});
        },
        [&](const Backend&) {
          for (size_t i = 0; i < y.result.size(); ++i)
            if (!std::isnan(y.expected[i]) && y.result[i] != y.expected[i]) FAIL("element " << i);
        });
  }
}

TEST_CASE("parts of a parameter are rounded as the whole is") {
  constexpr int64_t kCount = 1000, kCut = 408;
  for (const Backend& b : backends()) {
    CAPTURE(b.name);
    Case c;
    const Operand& x = c.input("x", DType::f32, {kCount});
    const Operand& whole = c.output("whole", DType::bf16, {kCount});
    const Operand& parts = c.output("parts", DType::bf16, {kCount});
    const StochasticRounding r{7, 8, 9};
    StochasticRounding rest = r;
    rest.first = kCut;
    c.run(b, [&](Ops& ops) {
      const Tensor from = x, to = parts;
      ops.round_stochastically({whole, from, r});
      ops.round_stochastically({to.slice(0, kCut), from.slice(0, kCut), r});
      ops.round_stochastically({to.slice(kCut, kCount - kCut), from.slice(kCut, kCount - kCut), rest});
      rest.first = kCut + 1;
      CHECK_THROWS_AS(ops.round_stochastically({to, from, rest}), InternalError);
      rest.first = kCut;
    });
    CHECK(whole.result == parts.result);
  }
}

TEST_CASE("stochastic rounding is unbiased and differs from step to step") {
  constexpr int64_t kCount = 20000;
  const double step = 0x1p-7, value = 1.0 + 0.3 * step;  // 3 of 10 go up
  Case c;
  const Operand& x = c.input("x", DType::f32, {kCount}, constant(value));
  const Operand& y = c.output("y", DType::bf16, {kCount});
  std::vector<std::vector<double>> results;
  for (const uint32_t at : {1u, 2u}) {
    c.run(oracle(), [&](Ops& ops) { ops.round_stochastically({y, x, {1, 2, at}}); });
    double up = 0;
    for (const double r : y.result) {
      REQUIRE((r == 1.0 || r == 1.0 + step));
      up += r > 1.0;
    }
    // Five standard deviations of a binomial distribution.
    CHECK(std::abs(up / kCount - 0.3) < 5 * std::sqrt(0.3 * 0.7 / kCount));
    results.push_back(y.result);
  }
  CHECK(results[0] != results[1]);
}
