#include <catch2/catch.hpp>
#include <limits>

#include "compare.h"
#include "operands.h"

using namespace fp;
using namespace fp::test;

namespace {

struct ActivationShape {
  int64_t M, f;
};
const std::vector<ActivationShape> kActivationShapes{{1, 1}, {7, 33}, {63, 65}, {65, 64}, {3, 257}, {130, 96}};
const std::vector<ActivationSpec> kActivationSpecs{{Activation::gelu, 0},
                                                   {Activation::swiglu, 0},
                                                   {Activation::gegelu, 20.0},
                                                   {Activation::gegelu, 0.5},
                                                   {Activation::gegelu, 0.0}};

std::string text(const ActivationShape& s, const ActivationSpec& spec, DType t) {
  const char* names[] = {"gelu", "swiglu", "gegelu"};
  return fmt::format("{} limit {} M={} f={} {}", names[static_cast<int>(spec.kind)], spec.limit, s.M, s.f, name_of(t));
}

// Calls f(output index, index of the first argument, of the second).
template <class F>
void for_each_output(const ActivationShape& s, const ActivationSpec& spec, F&& f) {
  const int64_t inputs = spec.inputs(s.f);
  for (int64_t m = 0; m < s.M; ++m)
    for (int64_t i = 0; i < s.f; ++i) {
      const int64_t at = spec.kind == Activation::gegelu ? m * inputs + 2 * i : m * inputs + i;
      f(m * s.f + i, at, spec.kind == Activation::gegelu ? at + 1 : at + (spec.kind == Activation::swiglu ? s.f : 0));
    }
}

// exp(-x) carries the relative error of an elementary function and x times the rounding of its argument.
double sigmoid_error(double x) { return kFunction * (2.0 + std::min(std::abs(x), 100.0)); }

// Most of what gelu's polynomial x(1 + 0.044715 x^2) contributes to its slope, where 1 - tanh^2 has only absolute
// precision.
double gelu_slope(double x) { return 1.0 + std::abs(x) * (1.0 + 0.135 * x * x); }

}  // namespace

TEST_CASE("activation agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const ActivationSpec& spec : kActivationSpecs)
      for (const ActivationShape& s : kActivationShapes) {
        INFO(text(s, spec, t));
        Case c;
        const Operand& x = c.input("x", t, {s.M, spec.inputs(s.f)}, scaled(3.0));
        Operand& y = c.output("y", t, {s.M, s.f});
        y.bound.resize(y.value.size());
        for_each_output(s, spec, [&](int64_t at, int64_t i, int64_t j) {
          const double a = std::abs(x.value[i]), b = std::abs(x.value[j]);
          y.bound[at] = spec.kind == Activation::gelu     ? 2 * kFunction * a
                        : spec.kind == Activation::swiglu ? sigmoid_error(a) * a * b
                                                          : sigmoid_error(1.702 * a) * a * (b + 1.0);
        });
        c.check([&](Ops& ops) { ops.activation({y, x, spec}); });
      }
  });
}

TEST_CASE("activation_backward agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const ActivationSpec& spec : kActivationSpecs)
      for (const ActivationShape& s : kActivationShapes) {
        INFO(text(s, spec, t));
        Case c;
        const Operand& x = c.input("x", t, {s.M, spec.inputs(s.f)}, scaled(3.0));
        const Operand& dy = c.input("dy", t, {s.M, s.f});
        Operand& dx = c.output("dx", t, {s.M, spec.inputs(s.f)});
        dx.bound.resize(dx.value.size());
        for_each_output(s, spec, [&](int64_t at, int64_t i, int64_t j) {
          const double a = std::abs(x.value[i]), b = std::abs(x.value[j]), d = std::abs(dy.value[at]);
          if (spec.kind == Activation::gelu) {
            dx.bound[i] = kFunction * d * gelu_slope(a);
          } else {
            const double steep = spec.kind == Activation::gegelu ? 1.702 * a : a;
            const double offset = spec.kind == Activation::gegelu ? 1.0 : 0.0;
            dx.bound[i] = sigmoid_error(steep) * d * (1.0 + steep) * (b + offset);
            dx.bound[j] = sigmoid_error(steep) * d * a;
          }
        });
        c.check([&](Ops& ops) { ops.activation_backward({dx, dy, x, spec}); });
      }
  });
}

TEST_CASE("activations saturate without NaN or infinity") {
  for_each_compute_type([](DType t) {
    // Every pair of these as first and second argument.
    const std::vector<double> extremes{0.0, -0.0, 1e-30, -1e-30, 20.0, -20.0, 20.25, -20.25, 90.0, -90.0, 1e4, -1e4};
    const auto n = static_cast<int64_t>(extremes.size());
    for (const ActivationSpec& spec : kActivationSpecs) {
      const ActivationShape s{1, n * n};
      INFO(text(s, spec, t));
      const auto argument = [&](int64_t index) { return extremes[static_cast<size_t>(index)]; };
      std::vector<double> content(static_cast<size_t>(spec.inputs(s.f)));
      for_each_output(s, spec, [&](int64_t at, int64_t i, int64_t j) {
        content[j] = argument(at % n);
        content[i] = argument(at / n);
      });
      Case c;
      const Operand& x =
          c.input("x", t, {1, spec.inputs(s.f)}, [&](double, int64_t i) { return content[static_cast<size_t>(i)]; });
      const Operand& dy = c.input("dy", t, {1, s.f}, constant(1.0));
      Operand& y = c.output("y", t, {1, s.f});
      Operand& dx = c.output("dx", t, {1, spec.inputs(s.f)});
      y.bound.resize(y.value.size());
      dx.bound.resize(dx.value.size());
      for_each_output(s, spec, [&](int64_t at, int64_t i, int64_t j) {
        const double a = std::abs(x.value[i]), b = std::abs(x.value[j]);
        y.bound[at] = sigmoid_error(1.702 * a) * (1.0 + a) * (b + 1.0);
        // Far out the slope is exactly 0 or 1; the polynomial's bound would hide a wrong one.
        dx.bound[i] = kFunction * (a < 10.0 ? gelu_slope(a) : 1.0);
        if (j == i) return;
        dx.bound[i] = sigmoid_error(1.702 * a) * std::min(1.0 + 1.702 * a, 100.0) * (b + 1.0);
        dx.bound[j] = sigmoid_error(1.702 * a) * a;
      });
      c.check([&](Ops& ops) {
        ops.activation({y, x, spec});
        ops.activation_backward({dx, dy, x, spec});
      });
      for (const double v : y.expected) CHECK(std::isfinite(v));
      for (const double v : dx.expected) CHECK(std::isfinite(v));
    }
  });
}

TEST_CASE("gegelu passes infinities and clamps finite values") {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> content{infinity, 0.5, 25.0, 0.5, 1.0, 30.0, 1.0, -30.0, 1.0, infinity};
  Case c;
  const Operand& x =
      c.input("x", DType::f32, {1, 10}, [&](double, int64_t i) { return content[static_cast<size_t>(i)]; });
  Operand& y = c.output("y", DType::f32, {1, 5});
  y.bound.assign(5, sigmoid_error(40.0) * 20.0);
  c.check([&](Ops& ops) { ops.activation({y, x, {Activation::gegelu, 20.0}}); });
  const double s = 1.0 / (1.0 + std::exp(-1.702));
  CHECK(y.expected[0] == infinity);
  CHECK(y.expected[1] == Approx(20.0 * 1.5));
  CHECK(y.expected[2] == Approx(s * 21.0));
  CHECK(y.expected[3] == Approx(s * -19.0));
  CHECK(y.expected[4] == infinity);
}

TEST_CASE("add agrees with the oracle, also in place") {
  for_each_compute_type([](DType t) {
    for (const int64_t n : {1, 7, 64, 1030})
      for (const int alias : {0, 1, 2, 3}) {  // y is: itself, a, b, both
        INFO(name_of(t) << " n=" << n << " alias " << alias);
        Case c;
        Operand& a = alias == 1 || alias == 3 ? c.inout("a", t, {n}) : c.input("a", t, {n});
        Operand& b = alias == 3 ? a : alias == 2 ? c.inout("b", t, {n}) : c.input("b", t, {n});
        Operand& y = alias == 0 ? c.output("y", t, {n}) : alias == 2 ? b : a;
        for (int64_t i = 0; i < n; ++i) y.bound.push_back(kUnit * (std::abs(a.value[i]) + std::abs(b.value[i])));
        c.check([&](Ops& ops) { ops.add({y, a, b}); });
      }
  });
}

TEST_CASE("dropout drops the elements that Philox selects") {
  for_each_compute_type([](DType t) {
    for (const auto& [B, T, C] : std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {2, 3, 7}, {3, 65, 33}, {1, 2, 257}})
      for (const double p : {0.0, 0.1, 0.9}) {
        for (const bool in_place : {false, true}) {
          INFO(name_of(t) << " B=" << B << " T=" << T << " C=" << C << " p=" << p << (in_place ? " in place" : ""));
          const Dropout spec{p, 1234567890123u, Purpose::ffn_dropout, 5};
          std::vector<int32_t> samples;
          for (int32_t b = 0; b < B; ++b) samples.insert(samples.end(), {100 - b, b});
          Case c;
          Operand& x = in_place ? c.inout("x", t, {B, T, C}) : c.input("x", t, {B, T, C});
          const Operand& ids = c.ids("sample_ids", {B, 2}, samples);
          Operand& y = in_place ? x : c.output("y", t, {B, T, C});
          for (const double v : x.value) y.bound.push_back(2 * kUnit * std::abs(v) / (1.0 - p));
          c.check(
              [&](Ops& ops) {
                ops.dropout({y, x, ids, 17, spec});
              },
              [&](const Backend&) {
                const Philox::Key key = dropout_key(spec);
                for (int64_t i = 0; i < B * T * C; ++i) {
                  const auto b = static_cast<size_t>(i / (T * C));
                  const float factor =
                      dropout_factor(spec, key, static_cast<uint32_t>(i % C), static_cast<uint32_t>(17 + i / C % T),
                                     static_cast<uint32_t>(samples[2 * b]), static_cast<uint32_t>(samples[2 * b + 1]));
                  if ((y.result[i] == 0.0) != (p > 0.0 && factor == 0.0f)) FAIL("element " << i);
                }
              });
        }
      }
  });
}

TEST_CASE("dropout keeps the expected fraction of elements") {
  const int64_t B = 2, T = 50, C = 400;
  const Dropout spec{0.3, 42, Purpose::residual_dropout, 0};
  Case c;
  const Operand& x = c.input("x", DType::f32, {B, T, C}, constant(1.0));
  const Operand& ids = c.ids("sample_ids", {B, 2}, {0, 0, 1, 0});
  const Operand& y = c.output("y", DType::f32, {B, T, C});
  c.run(oracle(), [&](Ops& ops) { ops.dropout({y, x, ids, 0, spec}); });
  const auto dropped = static_cast<double>(std::count(y.result.begin(), y.result.end(), 0.0));
  const double n = static_cast<double>(B * T * C), deviation = std::sqrt(n * 0.3 * 0.7);
  CHECK(std::abs(dropped - 0.3 * n) < 5 * deviation);
}
