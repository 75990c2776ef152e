#include <catch2/catch.hpp>

#include "compare.h"
#include "operands.h"

using namespace fp;
using namespace fp::test;

TEST_CASE("lion agrees with the oracle") {
  for (const int64_t n : {1, 7, 64, 1030})
    for (const double decay : {0.0, 0.1})
      for (const bool with_weights : {false, true}) {
        const UpdateOptions a{.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = decay, .grad_scale = 0.25};
        INFO("n=" << n << " decay=" << decay << (with_weights ? " weights" : ""));
        Case c;
        Operand& param = c.inout("param", DType::f32, {n});
        Operand& m = c.inout("m", DType::f32, {n}, scaled(0.1));
        const Operand& grad =
            c.input("grad", DType::f32, {n}, [](double normal, int64_t i) { return i % 5 == 4 ? 0.0 : normal; });
        Operand& weights = with_weights ? c.output("weights", DType::bf16, {n}) : c.none();
        for (int64_t i = 0; i < n; ++i) {
          const double g = a.grad_scale * grad.value[i], old = a.beta1 * m.value[i], fresh = (1 - a.beta1) * g;
          // Where the two nearly cancel, rounding decides the sign.
          const bool tie = std::abs(old + fresh) <= 4 * kUnit * (std::abs(old) + std::abs(fresh));
          const double size = a.lr * (1 + decay * std::abs(param.value[i]));
          m.bound.push_back(4 * kUnit * (std::abs(m.value[i]) + std::abs(g)));
          param.bound.push_back((tie ? 2 * a.lr : 0) + 8 * kUnit * size + kUnit * std::abs(param.value[i]));
          if (with_weights) weights.bound.push_back(2 * param.bound.back() + spacing(param.value[i], DType::bf16));
        }
        c.check(
            [&](Ops& ops) {
              ops.lion({param, {m}, grad, weights, a, {}});
            },
            [&](const Backend&) {
              for (size_t i = 0; i < weights.result.size(); ++i)
                if (weights.result[i] != static_cast<float>(bf16(static_cast<float>(param.result[i]))))
                  FAIL("weight " << i);
            });
      }
}

TEST_CASE("lion computes the step of the published formula") {
  Case c;
  Operand& param = c.inout("param", DType::f32, {3}, constant(2.0));
  Operand& m = c.inout("m", DType::f32, {3}, [](double, int64_t i) { return i == 0 ? 0.5 : i == 1 ? -1.0 : -0.25; });
  const Operand& grad = c.input("grad", DType::f32, {3}, constant(6.0));
  const UpdateOptions a{.lr = 0.125, .beta1 = 0.75, .beta2 = 0.5, .weight_decay = 0.5, .grad_scale = 0.125};
  std::vector<Backend> every = backends();
  every.push_back(oracle());
  for (const Backend& backend : every) {
    INFO(backend.name);
    c.run(backend, [&](Ops& ops) { ops.lion({param, {m}, grad, Tensor(), a, {}}); });
    // g = 0.75; the mean is 0.375 + 0.1875, -0.75 + 0.1875, and -0.1875 + 0.1875, whose sign is 0.
    CHECK(m.result == std::vector<double>{0.625, -0.125, 0.25});
    CHECK(param.result == std::vector<double>{2 - 0.125 * (1 + 1), 2 - 0.125 * (-1 + 1), 2 - 0.125 * (0 + 1)});
  }
}

TEST_CASE("the sums returned by lion equal those of its arrays and do not affect results") {
  std::vector<Backend> every = backends();
  every.push_back(oracle());
  for (const int64_t n : {1, 64, 1030, 70003})
    for (const bool with_weights : {false, true})
      for (const Backend& backend : every) {
        INFO(backend.name << ", n=" << n << (with_weights ? ", weights" : ""));
        const auto update = [&](bool sums) {
          Case c;
          Operand& param = c.inout("param", DType::f32, {n});
          Operand& m = c.inout("m", DType::f32, {n}, scaled(0.1));
          const Operand& grad = c.input("grad", DType::f32, {n});
          Operand& weights = with_weights ? c.output("weights", DType::bf16, {n}) : c.none();
          const Operand& gradient = c.output("gradient", DType::f32, {1, 2});
          const Operand& bits = c.output("bits", DType::i32, {3, 2});
          const Operand& gradient_again = c.output("gradient again", DType::f32, {1, 2});
          const Operand& bits_again = c.output("bits again", DType::i32, {3, 2});
          c.run(backend, [&](Ops& ops) {
            ops.lion({param,
                      {m},
                      grad,
                      weights,
                      {.lr = 1e-2, .weight_decay = 0.1, .grad_scale = 0.5},
                      sums ? RuleSums{gradient, bits} : RuleSums{}});
            ops.piece_sums({gradient_again, grad});
            ops.zero({bits_again});
            const Tensor arrays[] = {param, m, weights}, all = bits_again;
            for (int64_t k = 0; k < (with_weights ? 3 : 2); ++k)
              ops.bit_sums({all.slice(k, 1).reshaped({2}), arrays[k]});
          });
          if (sums) {
            CHECK(bits.result == bits_again.result);
            const double bound = sum_error(std::min<int64_t>(n, 256), gradient_again.result[1]);
            CHECK(std::abs(gradient.result[0] - gradient_again.result[0]) <= bound);
            CHECK(std::abs(gradient.result[1] - gradient_again.result[1]) <= bound);
          }
          return bits_again.result;
        };
        CHECK(update(false) == update(true));
      }
}
