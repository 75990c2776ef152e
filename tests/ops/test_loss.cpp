#include <catch2/catch.hpp>
#include <limits>

#include "compare.h"
#include "operands.h"

using namespace fp;
using namespace fp::test;

namespace {

struct LossCase {
  int64_t rows, columns;
  int64_t first_id = 0, valid_ids = 0;  // 0: all valid
  double logit_scale = 1.0;
  bool masked = false;
  double spread = 3.0;  // standard deviation of the logits

  int64_t valid() const { return valid_ids > 0 ? valid_ids : first_id + columns; }
  std::string str() const {
    return fmt::format("C={} V={} first={} valid={} scale={}{}", rows, columns, first_id, valid(), logit_scale,
                       masked ? " masked" : "");
  }
};

const std::vector<LossCase> kLossCases{{1, 1},
                                       {7, 33},
                                       {65, 257},
                                       {3, 1030, 0, 1000},
                                       {2, 4096},
                                       {63, 64, 128, 0, 0.125},
                                       {33, 130, 0, 100, 0.3, true},
                                       {5, 65, 64, 100, 1.0, true},
                                       {5, 64, 128, 128},  // a slice of padding only
                                       {130, 80, 0, 0, 1.0, false, 1e4}};

// Targets of three kinds: in the slice, elsewhere, and ignored.
std::vector<int32_t> some_targets(const LossCase& l) {
  std::vector<int32_t> targets;
  for (int64_t r = 0; r < l.rows; ++r) {
    const auto here = static_cast<int32_t>(l.first_id + r * 37 % l.columns);
    targets.push_back(r % 5 == 4 ? -1 : r % 5 == 3 ? static_cast<int32_t>((here + l.columns) % l.valid()) : here);
  }
  return targets;
}

struct LossOperands {
  LossOperands(Case& c, const LossCase& l_, DType t, bool in_place) : l(l_) {
    const Shape shape{l.rows, l.columns};
    logits = in_place ? &c.inout("logits", t, shape, scaled(l.spread)) : &c.input("logits", t, shape, scaled(l.spread));
    targets = &c.ids("targets", {l.rows}, some_targets(l));
    // Two of the masked ids lie in the slice, one of them the last valid id; two do not.
    const auto first = static_cast<int32_t>(l.first_id);
    masked_ids = l.masked
                     ? &c.ids("masked_ids", {4},
                              {first + 5, first + static_cast<int32_t>(std::min(l.columns, l.valid() - l.first_id)) - 1,
                               0, first + 5000})
                     : &c.none();
  }
  Vocabulary vocabulary() const { return {l.first_id, l.valid(), *masked_ids, l.logit_scale}; }
  bool live(int64_t column) const {
    const double id = static_cast<double>(l.first_id + column);
    const auto& ids = masked_ids->value;
    return l.first_id + column < l.valid() && (!l.masked || std::find(ids.begin(), ids.end(), id) == ids.end());
  }
  double logit(int64_t r, int64_t column) const { return l.logit_scale * logits->value[r * l.columns + column]; }
  // Error of a scaled logit in f32: none when the scale is a power of two.
  double logit_error(double x) const {
    int exponent = 0;
    return std::frexp(l.logit_scale, &exponent) == 0.5 ? 0.0 : 2 * kUnit * std::abs(x);
  }

  LossCase l;
  Operand *logits, *targets, *masked_ids;
};

}  // namespace

TEST_CASE("softmax_stats agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const LossCase& l : kLossCases) {
      INFO(l.str() << " " << name_of(t));
      Case c;
      const LossOperands o(c, l, t, false);
      Operand& stats = c.output("stats", DType::f32, {l.rows, 3});
      for (int64_t r = 0; r < l.rows; ++r) {
        double maximum = -kInfinity, sum_bound = 0.0;
        int64_t live = 0;
        for (int64_t i = 0; i < l.columns; ++i)
          if (o.live(i)) maximum = std::max(maximum, o.logit(r, i)), ++live;
        for (int64_t i = 0; i < l.columns; ++i) {
          if (!o.live(i)) continue;
          const double below = maximum - o.logit(r, i);
          sum_bound += std::exp(-below) * (o.logit_error(o.logit(r, i)) + o.logit_error(maximum) +
                                           kFunction * (1.0 + std::min(below, 100.0)) + sum_error(live, 1.0));
        }
        const double target = o.targets->value[static_cast<size_t>(r)] - static_cast<double>(l.first_id);
        const bool here = target >= 0 && target < static_cast<double>(l.columns);
        stats.bound.insert(stats.bound.end(), {live > 0 ? o.logit_error(maximum) : 0.0, sum_bound,
                                               here ? o.logit_error(o.logit(r, static_cast<int64_t>(target))) : 0.0});
      }
      c.check([&](Ops& ops) { ops.softmax_stats({stats, *o.logits, *o.targets, o.vocabulary()}); });
    }
  });
}

TEST_CASE("logits of -infinity have probability zero, also in a row of -infinity only") {
  for_each_compute_type([](DType t) {
    INFO(name_of(t));
    const int64_t C = 3, V = 70;
    Case c;
    // Row 0: every other logit; row 1: all but the target; row 2: all.
    const Operand& logits = c.input("logits", t, {C, V}, [](double normal, int64_t i) {
      const int64_t r = i / V, column = i % V;
      return (r == 0 && column % 2 == 1) || (r == 1 && column != 9) || r == 2 ? -kInfinity : normal;
    });
    const Operand& targets = c.ids("targets", {C}, {0, 9, V});
    Operand& stats = c.output("stats", DType::f32, {C, 3});
    Operand& loss = c.output("loss", DType::f32, {2, 2});
    Operand& gradient = c.output("gradient", t, {2, V});
    stats.bound.assign(static_cast<size_t>(3 * C), 100 * kFunction);
    loss.bound.assign(4, 100 * kFunction);
    gradient.bound.assign(static_cast<size_t>(2 * V), 100 * kFunction);
    const Vocabulary vocabulary{0, V, Tensor(), 1.0};
    c.check([&](Ops& ops) {
      ops.softmax_stats({stats, logits, targets, vocabulary});
      ops.cross_entropy({loss, stats.tensor.slice(0, 2), targets.tensor.slice(0, 2)});
      ops.copy({gradient, logits.tensor.slice(0, 2)});
      ops.cross_entropy_backward({gradient, loss, targets.tensor.slice(0, 2), vocabulary, 1.0, 0.0});
    });
    CHECK(stats.expected[6] == -kInfinity);
    CHECK(stats.expected[7] == 0.0);
    CHECK(loss.expected[2] == Approx(0.0).margin(1e-6));
    CHECK(gradient.expected[1] == 0.0);
  });
}

TEST_CASE("cross_entropy agrees with the oracle") {
  // maximum, sum, target logit: ordinary, huge, a sum of 1, all below zero.
  const std::vector<std::array<double, 3>> rows{{3.0, 17.5, 1.25}, {12345.0, 1.5, 12345.0},     {12345.0, 70.0, -20.0},
                                                {0.0, 1.0, 0.0},   {-5000.0, 50257.0, -5001.0}, {2.0, 3.0, 1.0}};
  Case c;
  const auto n = static_cast<int64_t>(rows.size());
  const Operand& stats = c.input("stats", DType::f32, {n, 3}, [&](double, int64_t i) { return rows[i / 3][i % 3]; });
  const Operand& targets = c.ids("targets", {n}, {0, 5, 5, 1, 2, -1});
  Operand& loss = c.output("loss", DType::f32, {n, 2});
  for (int64_t r = 0; r < n; ++r) {
    // (maximum - target) + log(sum), not a difference of two large numbers that are rounded already.
    const double log_sum = std::abs(std::log(rows[r][1])), step = std::abs(rows[r][0] - rows[r][2]);
    const double error = kFunction * (log_sum + 1.0);
    loss.bound.insert(loss.bound.end(), {error + kUnit * step, error + kUnit * std::abs(rows[r][0])});
  }
  c.check([&](Ops& ops) { ops.cross_entropy({loss, stats, targets}); });
  CHECK(loss.expected[1] == Approx(3.0 + std::log(17.5)));
  CHECK(loss.expected[10] == 0.0);
  CHECK(loss.expected[11] == 0.0);
}

TEST_CASE("cross_entropy_backward agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const LossCase& l : kLossCases)
      for (const double z_loss : {0.0, 1e-4}) {
        INFO(l.str() << " z_loss=" << z_loss << " " << name_of(t));
        const double scale = 0.37;
        Case c;
        const LossOperands o(c, l, t, true);
        // The log-sum-exp of the whole vocabulary: that of this slice and of a second one as large.
        std::vector<double> lse(static_cast<size_t>(l.rows), 0.0);
        for (int64_t r = 0; r < l.rows; ++r) {
          double maximum = -kInfinity, sum = 0.0;
          for (int64_t i = 0; i < l.columns; ++i) maximum = std::max(maximum, o.logit(r, i));
          for (int64_t i = 0; i < l.columns; ++i) sum += std::exp(o.logit(r, i) - maximum);
          lse[r] = maximum + std::log(2.0 * sum);
        }
        const Operand& loss =
            c.input("loss", DType::f32, {l.rows, 2}, [&](double, int64_t i) { return i % 2 ? lse[i / 2] : 1.0; });
        Operand& logits = *o.logits;
        for (int64_t r = 0; r < l.rows; ++r) {
          const double row_lse = loss.value[2 * r + 1];
          for (int64_t i = 0; i < l.columns; ++i) {
            const double x = o.logit(r, i), softmax = std::exp(x - row_lse);
            const double factor = std::abs(scale * l.logit_scale);
            const double error = o.logit_error(x) + kFunction * (1.0 + std::min(std::abs(x - row_lse), 100.0));
            const bool counts = o.live(i) && o.targets->value[static_cast<size_t>(r)] >= 0.0;
            const double onehot = static_cast<double>(l.first_id + i) == o.targets->value[static_cast<size_t>(r)];
            const double z = 1.0 + 2.0 * z_loss * std::abs(row_lse);
            logits.bound.push_back(counts ? factor * (softmax * z * (error + 4 * kUnit) + 4 * kUnit * onehot) : 0.0);
          }
        }
        c.check([&](Ops& ops) {
          ops.cross_entropy_backward({*o.logits, loss, *o.targets, o.vocabulary(), scale, z_loss});
        });
      }
  });
}

TEST_CASE("a NaN or infinite logit makes the loss of its row not finite, and of no other row") {
  for_each_compute_type([](DType t) {
    const double nan = std::nan("");
    // Columns 3 and 70 lie in different vector lanes of any kernel.
    for (const int64_t column : {int64_t{0}, int64_t{3}, int64_t{70}, int64_t{79}})
      for (const double bad : {nan, kInfinity}) {
        INFO(name_of(t) << " column " << column << " " << bad);
        Case c;
        const int64_t C = 3, V = 80;
        const Operand& logits =
            c.input("logits", t, {C, V}, [&](double normal, int64_t i) { return i == V + column ? bad : normal; });
        const Operand& targets = c.ids("targets", {C}, {1, 2, 3});
        const Operand& stats = c.output("stats", DType::f32, {C, 3});
        const Operand& loss = c.output("loss", DType::f32, {C, 2});
        std::vector<Backend> every = backends();
        every.push_back(oracle());
        for (const Backend& backend : every) {
          INFO(backend.name);
          c.run(backend, [&](Ops& ops) {
            ops.softmax_stats({stats, logits, targets, {0, V, Tensor(), 1.0}});
            ops.cross_entropy({loss, stats, targets});
          });
          CHECK(std::isfinite(loss.result[0]));
          CHECK(!std::isfinite(loss.result[2]));
          CHECK(std::isfinite(loss.result[4]));
        }
      }
  });
}
