#include <catch2/catch.hpp>
#include <numeric>

#include "compare.h"
#include "operands.h"

using namespace fp;
using namespace fp::test;

namespace {

struct NormShape {
  int64_t M, h;
};
const std::vector<NormShape> kNormShapes{{1, 1},    {1, 64},   {7, 33},   {65, 80},  {3, 257},
                                         {130, 96}, {2, 1030}, {2, 2048}, {2, 2560}, {1, 20480}};

struct RowMoments {
  double mean = 0.0, mean_magnitude = 0.0, inverse_std = 0.0;
};

RowMoments moments(const double* x, int64_t h, const NormSpec& spec) {
  RowMoments r;
  const double n = static_cast<double>(h);
  for (int64_t i = 0; i < h; ++i) {
    if (spec.kind == Norm::layernorm) r.mean += x[i] / n;
    r.mean_magnitude += std::abs(x[i]) / n;
  }
  double variance = 0.0;
  for (int64_t i = 0; i < h; ++i) variance += (x[i] - r.mean) * (x[i] - r.mean) / n;
  r.inverse_std = 1.0 / std::sqrt(variance + spec.eps);
  return r;
}

std::string text(const NormShape& s, const NormSpec& spec, DType t) {
  return fmt::format("{} M={} h={} {}", spec.kind == Norm::layernorm ? "layernorm" : "rmsnorm", s.M, s.h, name_of(t));
}

const std::vector<NormSpec> kNormSpecs{{Norm::layernorm, 1e-5}, {Norm::rmsnorm, 1e-6}};

// Errors of the statistics and of the normalised value; `x` holds the values to normalise.
struct Errors {
  double mean, inverse_std, normalised;
};
Errors errors(const RowMoments& r, double x, int64_t h, const NormSpec& spec) {
  const double mean = spec.kind == Norm::layernorm ? sum_error(h, r.mean_magnitude) : 0.0;
  // A two-pass variance: relative error of the sum, and the square of the error of the mean.
  const double inverse_std = r.inverse_std * (sum_error(h, 1.0) + mean * mean * r.inverse_std * r.inverse_std);
  const double centred = x - r.mean;
  return {mean, inverse_std, r.inverse_std * (mean + 2 * kUnit * std::abs(centred)) + std::abs(centred) * inverse_std};
}

// Returns whether rounding to the format may go either way after an error of a few f32 roundings.
bool near_tie(double x, DType t) {
  if (t == DType::f32) return true;
  const auto rounded = [](double v) { return static_cast<float>(bf16(static_cast<float>(v))); };
  return rounded(x * (1.0 - kFunction)) != rounded(x * (1.0 + kFunction));
}

}  // namespace

TEST_CASE("norm agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const NormSpec& spec : kNormSpecs)
      for (const NormShape& s : kNormShapes)
        for (const bool full : {false, true}) {  // with residual and bias, or without
          INFO(text(s, spec, t) << (full ? " residual bias" : ""));
          Case c;
          const Operand& x = c.input("x", t, {s.M, s.h}, [](double normal, int64_t) { return 3.0 * normal + 1.0; });
          const Operand& residual = full ? c.input("residual", t, {s.M, s.h}) : c.none();
          const Operand& gain = c.input("gain", t, {s.h});
          const Operand& bias = full ? c.input("bias", t, {s.h}) : c.none();
          const Operand& sum = full ? c.output("sum", t, {s.M, s.h}) : c.none();
          Operand& stats = c.output("stats", DType::f32, {s.M, 2});
          Operand& y = c.output("y", t, {s.M, s.h});
          const auto call = [&](Ops& ops) { ops.norm({y, sum, stats, x, residual, gain, bias, spec}); };
          c.run(oracle(), call);
          const std::vector<double>& normed = full ? sum.result : x.value;
          stats.bound.resize(stats.value.size());
          y.bound.resize(y.value.size());
          for (int64_t m = 0; m < s.M; ++m) {
            const RowMoments r = moments(&normed[m * s.h], s.h, spec);
            for (int64_t i = 0; i < s.h; ++i) {
              const double v = normed[m * s.h + i], n = (v - r.mean) * r.inverse_std;
              const Errors e = errors(r, v, s.h, spec);
              // The normalised value may be rounded to either neighbour.
              const double g = std::abs(gain.value[i]), b = full ? std::abs(bias.value[i]) : 0.0;
              y.bound[m * s.h + i] = g * (e.normalised + spacing(n, t)) + 2 * kUnit * (g * std::abs(n) + b);
              stats.bound[2 * m] = e.mean;
              stats.bound[2 * m + 1] = e.inverse_std;
            }
          }
          c.check(call);
        }
  });
}

TEST_CASE("norm rounds the normalised value before the gain") {
  for (const NormSpec& spec : kNormSpecs) {
    Case c;
    const int64_t M = 65, h = 64;
    const Operand& x = c.input("x", DType::bf16, {M, h});
    const Operand& gain = c.input("gain", DType::bf16, {h});
    Operand& stats = c.output("stats", DType::f32, {M, 2});
    Operand& y = c.output("y", DType::bf16, {M, h});
    stats.bound.assign(stats.value.size(), 1e-5);
    // One spacing of the normalised value and one of the result: looser than the check below.
    for (int64_t i = 0; i < M * h; ++i) y.bound.push_back(std::abs(gain.value[i % h]) * 0x1p-5);
    c.check(
        [&](Ops& ops) {
          ops.norm({y, Tensor(), stats, x, Tensor(), gain, Tensor(), spec});
        },
        [&](const Backend&) {
          // Rounded once at the end, more than a tenth of the results would differ; rounding at a tie is rare.
          int64_t different = 0;
          for (size_t i = 0; i < y.result.size(); ++i) different += y.result[i] != y.expected[i];
          CHECK(different <= M * h / 100);
        });
  }
}

TEST_CASE("norm: the sum may alias an operand") {
  for_each_compute_type([](DType t) {
    const int64_t M = 7, h = 65;
    const NormSpec spec{Norm::rmsnorm, 1e-5};
    for (const bool over_x : {false, true}) {
      INFO(name_of(t) << (over_x ? " x" : " residual"));
      Case c;
      Operand& x = over_x ? c.inout("x", t, {M, h}) : c.input("x", t, {M, h});
      Operand& residual = over_x ? c.input("residual", t, {M, h}) : c.inout("residual", t, {M, h});
      const Operand& gain = c.input("gain", t, {h}, constant(1.0));
      Operand& stats = c.output("stats", DType::f32, {M, 2});
      Operand& y = c.output("y", t, {M, h});
      stats.bound.assign(stats.value.size(), sum_error(h, 2.0));
      for (int64_t i = 0; i < M * h; ++i) y.bound.push_back(unit_of(t) * 8 + sum_error(h, 8.0));
      c.check([&](Ops& ops) {
        ops.norm({y, over_x ? x.tensor : residual.tensor, stats, x, residual, gain, Tensor(), spec});
      });
    }
  });
}

TEST_CASE("norm is accurate far from zero and finite on constant rows") {
  for (const NormSpec& spec : kNormSpecs) {
    Case c;
    const int64_t M = 5, h = 130;
    // Rows: offset 1000 with spread 1; all zero; constant; tiny; huge.
    const Operand& x = c.input("x", DType::f32, {M, h}, [h](double normal, int64_t i) {
      const int64_t row = i / h;
      return row == 0 ? 1000.0 + normal : row == 1 ? 0.0 : row == 2 ? 3.0 : row == 3 ? 1e-12 * normal : 1e12 * normal;
    });
    const Operand& gain = c.input("gain", DType::f32, {h}, constant(1.0));
    Operand& stats = c.output("stats", DType::f32, {M, 2});
    Operand& y = c.output("y", DType::f32, {M, h});
    for (int64_t m = 0; m < M; ++m) {
      const RowMoments r = moments(&x.value[m * h], h, spec);
      for (int64_t i = 0; i < h; ++i) y.bound.push_back(errors(r, x.value[m * h + i], h, spec).normalised);
      const Errors e = errors(r, 0.0, h, spec);
      stats.bound.insert(stats.bound.end(), {e.mean, e.inverse_std});
    }
    c.check([&](Ops& ops) { ops.norm({y, Tensor(), stats, x, Tensor(), gain, Tensor(), spec}); });
    for (const double v : y.expected) CHECK(std::isfinite(v));
  }
}

TEST_CASE("norm_backward agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const NormSpec& spec : kNormSpecs)
      for (const NormShape& s : kNormShapes)
        for (const Write write : {Write::set, Write::add}) {
          INFO(text(s, spec, t) << (write == Write::add ? " add" : " set"));
          Case c;
          const Operand& x = c.input("x", t, {s.M, s.h}, [](double normal, int64_t) { return 3.0 * normal + 1.0; });
          const Operand& dy = c.input("dy", t, {s.M, s.h});
          const Operand& gain = c.input("gain", t, {s.h});
          std::vector<double> true_stats;
          for (int64_t m = 0; m < s.M; ++m) {
            const RowMoments r = moments(&x.value[m * s.h], s.h, spec);
            true_stats.insert(true_stats.end(), {r.mean, r.inverse_std});
          }
          const Operand& stats = c.input("stats", DType::f32, {s.M, 2},
                                         [&](double, int64_t i) { return true_stats[static_cast<size_t>(i)]; });
          Operand& dx = c.destination("dx", t, {s.M, s.h}, write);
          Operand& dgain = c.destination("dgain", DType::f32, {s.h}, write);
          Operand& dbias = spec.kind == Norm::layernorm ? c.destination("dbias", DType::f32, {s.h}, write) : c.none();
          const auto before = [&](const Operand& o, int64_t i) {
            return o.role == Role::inout ? std::abs(o.value[static_cast<size_t>(i)]) : 0.0;
          };
          std::vector<double> by_gain(static_cast<size_t>(s.h)), by_bias(by_gain), ties(by_gain);
          for (int64_t m = 0; m < s.M; ++m) {
            const double mean = stats.value[2 * m], inverse_std = stats.value[2 * m + 1];
            double g_sum = 0.0, gn_sum = 0.0;
            for (int64_t i = 0; i < s.h; ++i) {
              const double d = dy.value[m * s.h + i], n = (x.value[m * s.h + i] - mean) * inverse_std;
              g_sum += std::abs(d * gain.value[i]) / static_cast<double>(s.h);
              gn_sum += std::abs(d * gain.value[i] * n) / static_cast<double>(s.h);
              by_gain[i] += std::abs(d * n);
              ties[i] += near_tie(n, t) ? std::abs(d) * spacing(n, t) : 0.0;
              by_bias[i] += std::abs(d);
            }
            for (int64_t i = 0; i < s.h; ++i) {
              const double g = std::abs(dy.value[m * s.h + i] * gain.value[i]);
              const double n = std::abs((x.value[m * s.h + i] - mean) * inverse_std);
              const double sums = sum_error(s.h + 8, g_sum) + n * sum_error(s.h + 8, gn_sum);
              dx.bound.push_back(inverse_std * (8 * kUnit * g + sums) + 2 * kUnit * before(dx, m * s.h + i));
            }
          }
          for (int64_t i = 0; i < s.h; ++i) {
            dgain.bound.push_back(sum_error(s.M + 4, by_gain[i] + before(dgain, i)) + ties[i]);
            if (dbias.shape.rank() > 0) dbias.bound.push_back(sum_error(s.M, by_bias[i] + before(dbias, i)));
          }
          c.check([&](Ops& ops) {
            ops.norm_backward_input({dx, dy, x, stats, gain, spec, write});
            ops.norm_backward_weight({dgain, dbias, dy, x, stats, spec, write});
          });
        }
  });
}
