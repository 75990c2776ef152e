// A vocabulary in slices, as tensor-parallel ranks hold it.
#include <catch2/catch.hpp>
#include <limits>

#include "compare.h"
#include "operands.h"

using namespace fp;
using namespace fp::test;

namespace {}  // namespace

TEST_CASE("softmax_stats_merge agrees with the oracle") {
  for (const auto& [P, C] : std::vector<std::array<int64_t, 2>>{{1, 1}, {1, 9}, {2, 0}, {3, 7}, {4, 257}, {8, 300}})
    for (const double spread : {3.0, 1e4}) {
      INFO("P=" << P << " C=" << C << " spread " << spread);
      Case c;
      // Every fifth part has no valid logit, row 6 has none in any part, the target of row r is in part r % P.
      Operand& parts = c.input("parts", DType::f32, {P, C, 3}, [&, C = C, P = P](double normal, int64_t i) {
        const int64_t p = i / 3 / C, r = i / 3 % C, what = i % 3;
        if (r == 6 || (p * 3 + r) % 5 == 4) return what == 1 ? 0.0 : -kInfinity;
        if (what == 1) return 1.0 + 1000.0 * std::abs(normal);
        return what == 0 || r % P == p ? spread * normal : -kInfinity;
      });
      Operand& stats = c.output("stats", DType::f32, {C, 3});
      for (int64_t r = 0; r < C; ++r) {
        double maximum = -kInfinity, total = 0.0, bound = 0.0;
        for (int64_t p = 0; p < P; ++p) maximum = std::max(maximum, parts.value[3 * (p * C + r)]);
        for (int64_t p = 0; p < P; ++p) {
          const double below = maximum - parts.value[3 * (p * C + r)];
          if (!std::isfinite(below)) continue;
          const double term = parts.value[3 * (p * C + r) + 1] * std::exp(-below);
          total += term;
          bound += term * kFunction * (1.0 + std::min(below, 100.0));
        }
        stats.bound.insert(stats.bound.end(), {0.0, bound + sum_error(P, total), 0.0});
      }
      c.check([&](Ops& ops) { ops.softmax_stats_merge({stats, parts}); });
      if (C > 6) {
        CHECK(stats.expected[18] == -kInfinity);
        CHECK(stats.expected[19] == 0.0);
        CHECK(stats.expected[20] == -kInfinity);
      }
    }
}

TEST_CASE("the merged loss of vocabulary slices is the loss of the whole vocabulary") {
  const int64_t C = 7, V = 60, valid = 57;
  Case c;
  const Operand& logits = c.input("logits", DType::f32, {C, V}, scaled(4.0));
  const Operand& targets = c.ids("targets", {C}, {0, 19, 20, 41, 56, 3, -1});
  const Operand& masked = c.ids("masked", {2}, {21, 40});
  const Operand& stats = c.output("stats", DType::f32, {C, 3});
  const Operand& loss = c.output("loss", DType::f32, {C, 2});
  const Operand& parts = c.output("parts", DType::f32, {3, C, 3});
  const Operand& merged = c.output("merged", DType::f32, {C, 3});
  const Operand& merged_loss = c.output("merged_loss", DType::f32, {C, 2});
  std::vector<Operand*> slices;
  for (int64_t s = 0; s < 3; ++s)
    slices.push_back(&c.input("slice", DType::f32, {C, 20}, [&, s](double, int64_t i) {
      return logits.value[static_cast<size_t>(i / 20 * V + s * 20 + i % 20)];
    }));
  std::vector<Backend> every = backends();
  every.push_back(oracle());
  for (const Backend& backend : every) {
    INFO(backend.name);
    c.run(backend, [&](Ops& ops) {
      ops.softmax_stats({stats, logits, targets, {0, valid, masked, 0.5}});
      ops.cross_entropy({loss, stats, targets});
      for (int64_t s = 0; s < 3; ++s)
        ops.softmax_stats({parts.tensor.slice(s, 1), *slices[s], targets, {s * 20, valid, masked, 0.5}});
      ops.softmax_stats_merge({merged, parts});
      ops.cross_entropy({merged_loss, merged, targets});
    });
    for (int64_t r = 0; r < C; ++r) {
      for (int64_t i = 2 * r; i < 2 * r + 2; ++i)
        CHECK(merged_loss.result[i] == Approx(loss.result[i]).epsilon(64 * kUnit));
      if (r == C - 1) continue;
      // Computed directly, over the valid ids.
      double by_hand = 0.0;
      for (int64_t i = 0; i < valid; ++i)
        if (i != 21 && i != 40) by_hand += std::exp(0.5 * logits.value[r * V + i]);
      CHECK(loss.result[2 * r + 1] == Approx(std::log(by_hand)).epsilon(64 * kUnit));
    }
  }
}

TEST_CASE("a not finite slice makes the loss of its row not finite, and of no other row") {
  const int64_t C = 3, V = 40;
  for (const double bad : {std::nan(""), kInfinity})
    for (const bool whole : {false, true}) {  // one logit, or all of the slice
      INFO(bad << (whole ? " all" : " one"));
      Case c;
      const Operand& first = c.input("first", DType::f32, {C, V}, [&](double normal, int64_t i) {
        return i / V == 1 && (whole || i % V == 7) ? bad : normal;
      });
      const Operand& second = c.input("second", DType::f32, {C, V});
      const Operand& targets = c.ids("targets", {C}, {1, 50, 79});
      const Operand& parts = c.output("parts", DType::f32, {2, C, 3});
      const Operand& stats = c.output("stats", DType::f32, {C, 3});
      const Operand& loss = c.output("loss", DType::f32, {C, 2});
      std::vector<Backend> every = backends();
      every.push_back(oracle());
      for (const Backend& backend : every) {
        INFO(backend.name);
        c.run(backend, [&](Ops& ops) {
          ops.softmax_stats({parts.tensor.slice(0, 1), first, targets, {0, 2 * V, Tensor(), 1.0}});
          ops.softmax_stats({parts.tensor.slice(1, 1), second, targets, {V, 2 * V, Tensor(), 1.0}});
          ops.softmax_stats_merge({stats, parts});
          ops.cross_entropy({loss, stats, targets});
        });
        CHECK(std::isfinite(loss.result[0]));
        CHECK(!std::isfinite(loss.result[2]));
        CHECK(std::isfinite(loss.result[4]));
      }
    }
}
