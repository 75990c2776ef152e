#include <catch2/catch.hpp>
#include <limits>

#include "compare.h"
#include "operands.h"

using namespace fp;
using namespace fp::test;

namespace {

// The gradient norm scales all gradients: its error must stay below a few hundred roundings, however long the buffer.
constexpr int64_t kLongestSum = 256;

}  // namespace

TEST_CASE("sum_squares agrees with the oracle") {
  const int64_t n = 200003;
  const std::vector<IndexRange> segments{{0, 1},         {1, 0},          {1, 63},    {64, 65},
                                         {1000, 131072}, {132073, 67929}, {5, 199998}};
  Case c;
  const Operand& x =
      c.input("x", DType::f32, {n}, [](double normal, int64_t i) { return i % 1000 == 0 ? 100.0 * normal : normal; });
  Operand& sums = c.output("sums", DType::f32, {static_cast<int64_t>(segments.size())});
  for (const IndexRange& s : segments) {
    double sum = 0.0;
    for (int64_t i = s.first; i < s.first + s.count; ++i) sum += x.value[i] * x.value[i];
    sums.bound.push_back(sum_error(std::min(s.count, kLongestSum), sum));
  }
  c.check([&](Ops& ops) { ops.sum_squares({sums, x, segments}); });
  CHECK(sums.expected[1] == 0.0);
}

TEST_CASE("sum_squares is not finite for segments with a non-finite element") {
  const int64_t n = 1000;
  const std::vector<IndexRange> segments{{0, 500}, {500, 500}};
  for (const double bad :
       {std::nan(""), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()})
    for (const int64_t at : {500, 517, 999}) {
      INFO(bad << " at " << at);
      Case c;
      const Operand& x =
          c.input("x", DType::f32, {n}, [&](double normal, int64_t i) { return i == at ? bad : normal; });
      const Operand& sums = c.output("sums", DType::f32, {2});
      std::vector<Backend> every = backends();
      every.push_back(oracle());
      for (const Backend& backend : every) {
        INFO(backend.name);
        c.run(backend, [&](Ops& ops) { ops.sum_squares({sums, x, segments}); });
        CHECK(std::isfinite(sums.result[0]));
        CHECK(!std::isfinite(sums.result[1]));
      }
    }
}

TEST_CASE("adamw agrees with the oracle") {
  for (const int64_t n : {1, 7, 64, 1030})
    for (const int64_t step : {1, 2, 1000})
      for (const double decay : {0.0, 0.1})
        for (const bool with_weights : {false, true}) {
          const UpdateOptions a{.lr = 1e-2,
                                .beta1 = 0.9,
                                .beta2 = 0.95,
                                .eps = 1e-8,
                                .weight_decay = decay,
                                .step = step,
                                .grad_scale = 0.25};
          INFO("n=" << n << " step=" << step << " decay=" << decay << (with_weights ? " weights" : ""));
          Case c;
          Operand& param = c.inout("param", DType::f32, {n});
          Operand& m = c.inout("m", DType::f32, {n}, scaled(step == 1 ? 0.0 : 0.1));
          Operand& v = c.inout("v", DType::f32, {n},
                               [&](double normal, int64_t) { return step == 1 ? 0.0 : 0.01 * normal * normal; });
          // Some gradients are exactly zero.
          const Operand& grad =
              c.input("grad", DType::f32, {n}, [](double normal, int64_t i) { return i % 5 == 4 ? 0.0 : normal; });
          Operand& weights = with_weights ? c.output("weights", DType::bf16, {n}) : c.none();
          for (int64_t i = 0; i < n; ++i) {
            const double g = a.grad_scale * grad.value[i], old = std::abs(a.beta1 * m.value[i]),
                         fresh = std::abs(0.1 * g);
            const double second = a.beta2 * v.value[i] + 0.05 * g * g;
            const double c1 = 1.0 - std::pow(a.beta1, step), c2 = 1.0 - std::pow(a.beta2, step);
            const double m_error = 4 * kUnit * (old + fresh), v_error = 6 * kUnit * second;
            const double denominator = std::sqrt(second / c2) + a.eps;
            const double update = a.lr * ((old + fresh) / c1 / denominator + decay * std::abs(param.value[i]));
            m.bound.push_back(m_error);
            v.bound.push_back(v_error);
            param.bound.push_back(16 * kUnit * update + kUnit * std::abs(param.value[i]));
            if (with_weights) weights.bound.push_back(2 * param.bound.back() + spacing(param.value[i], DType::bf16));
          }
          c.check(
              [&](Ops& ops) {
                ops.adamw({param, {m, v}, grad, weights, a, {}});
              },
              [&](const Backend&) {
                // The bf16 weights are the new parameters, rounded, to the bit.
                for (size_t i = 0; i < weights.result.size(); ++i)
                  if (weights.result[i] != static_cast<float>(bf16(static_cast<float>(param.result[i]))))
                    FAIL("weight " << i);
              });
        }
}

TEST_CASE("the sums returned by adamw equal those of its arrays and do not affect results") {
  std::vector<Backend> every = backends();
  every.push_back(oracle());
  for (const int64_t n : {1, 15, 64, 1030, 32768, 70003})
    for (const bool with_weights : {false, true})
      for (const Backend& backend : every) {
        INFO(backend.name << ", n=" << n << (with_weights ? ", weights" : ""));
        // Returns the results of an update, with or without `sums`, their bit sums from a separate pass, and its own
        // sums.
        const auto update = [&](bool sums) {
          Case c;
          Operand& param = c.inout("param", DType::f32, {n});
          Operand& m = c.inout("m", DType::f32, {n}, scaled(0.1));
          Operand& v = c.inout("v", DType::f32, {n}, [](double normal, int64_t) { return 0.01 * normal * normal; });
          const Operand& grad = c.input("grad", DType::f32, {n});
          Operand& weights = with_weights ? c.output("weights", DType::bf16, {n}) : c.none();
          const Operand& gradient = c.output("gradient", DType::f32, {1, 2});
          const Operand& bits = c.output("bits", DType::i32, {4, 2});
          const Operand& gradient_again = c.output("gradient again", DType::f32, {1, 2});
          const Operand& bits_again = c.output("bits again", DType::i32, {4, 2});
          c.run(backend, [&](Ops& ops) {
            ops.adamw({param,
                       {m, v},
                       grad,
                       weights,
                       {.lr = 1e-2, .weight_decay = 0.1, .grad_scale = 0.5},
                       sums ? RuleSums{gradient, bits} : RuleSums{}});
            ops.piece_sums({gradient_again, grad});
            ops.zero({bits_again});
            const Tensor arrays[] = {param, m, v, weights}, all = bits_again;
            for (int64_t k = 0; k < (with_weights ? 4 : 3); ++k)
              ops.bit_sums({all.slice(k, 1).reshaped({2}), arrays[k]});
          });
          if (sums) {
            CHECK(bits.result == bits_again.result);
            const double bound = sum_error(std::min(n, kLongestSum), gradient_again.result[1]);
            CHECK(std::abs(gradient.result[0] - gradient_again.result[0]) <= bound);
            CHECK(std::abs(gradient.result[1] - gradient_again.result[1]) <= bound);
          }
          return bits_again.result;
        };
        CHECK(update(false) == update(true));
      }
}

TEST_CASE("adamw computes the step of the published formula") {
  Case c;
  Operand& param = c.inout("param", DType::f32, {1}, constant(2.0));
  Operand& m = c.inout("m", DType::f32, {1}, constant(0.5));
  Operand& v = c.inout("v", DType::f32, {1}, constant(0.25));
  const Operand& grad = c.input("grad", DType::f32, {1}, constant(8.0));
  const UpdateOptions a{
      .lr = 0.1, .beta1 = 0.75, .beta2 = 0.5, .eps = 0.0, .weight_decay = 0.5, .step = 2, .grad_scale = 0.125};
  c.run(oracle(), [&](Ops& ops) { ops.adamw({param, {m, v}, grad, Tensor(), a, {}}); });
  // g = 1; m = 0.375 + 0.25; v = 0.125 + 0.5; corrections 1 - 0.5625 and 1 - 0.25.
  CHECK(m.result[0] == 0.625);
  CHECK(v.result[0] == 0.625);
  CHECK(param.result[0] == Approx(2.0 - 0.1 * (0.625 / 0.4375 / std::sqrt(0.625 / 0.75) + 0.5 * 2.0)));
}
