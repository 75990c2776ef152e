// The fit recovers the rates from which samples were generated.
#include <catch2/catch.hpp>
#include <cmath>

#include "base/philox.h"
#include "planner/costs.h"
#include "planner/fit.h"

namespace fp {
namespace {

constexpr double kProductFlops = 2e12, kOverhead = 3e-6;

double uniform(uint64_t i) { return static_cast<double>(Philox::mix(i) >> 11) * 0x1p-53; }

// A random factor of about 1.
double noise(uint64_t i, double size) { return std::exp(size * (2 * uniform(i) - 1)); }

OpWork product(const char* op, int64_t m, int64_t n, int64_t k, DType dtype) {
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  return {op, flops, 0, m, n, k, dtype};
}

OpWork attention(double scores, int head_dim, DType dtype) {
  return {"attention", 4 * head_dim * scores, 0, 0, 0, 0, dtype, scores};
}

double seconds_of(const OpWork& w) {
  if (w.op == "attention") return 5e-6 + w.flops / 1e11 + w.scores / 2e9;
  if (w.m == 0) return 2e-6 + w.bytes / 20e9;
  const auto half = [](double size, int64_t is) { return size / static_cast<double>(is); };
  return kOverhead + w.flops / kProductFlops * (1 + half(100, w.m) + half(20, w.n) + half(50, w.k));
}

std::vector<OpSample> samples(double off) {
  std::vector<OpSample> list;
  const auto add = [&](std::vector<OpWork> works) {
    OpSample s{std::move(works), 0};
    for (const OpWork& w : s.works) s.seconds += seconds_of(w);
    s.seconds *= noise(list.size(), off);
    list.push_back(s);
  };
  for (const DType t : {DType::bf16, DType::f32}) {
    for (const char* op : {"linear", "linear_backward_input", "linear_backward_weight"})
      for (const int64_t m : {64, 512, 4096})
        for (const int64_t n : {64, 384, 2048})
          for (const int64_t k : {64, 256, 3072}) add({product(op, m, n, k, t)});
    for (double size = 1e3; size < 1e9; size *= 3) {
      add({{"add", size, size, 0, 0, 0, t}});
      for (const int head_dim : {64, 128}) add({attention(size, head_dim, t)});
      add({product("linear", 128, 128, static_cast<int64_t>(size / 1e3), t), {"activation", size, size, 0, 0, 0, t}});
    }
  }
  return list;
}

ClusterSpec cluster_of(const FittedRates& fitted) {
  ClusterSpec c;
  c.ranks_per_node = 1;
  c.profiles.resize(1);
  c.profiles[0].products = fitted.products;
  c.profiles[0].ops = fitted.ops;
  return c;
}

}  // namespace

TEST_CASE("a fit to exact samples recovers their rates", "[planner][fit]") {
  const FittedRates fitted = fit_rates(samples(0));
  REQUIRE(fitted.products.size() == 6);
  for (const ProductRates& p : fitted.products) {
    CAPTURE(p.op, p.compute);
    CHECK(p.tflops == Approx(kProductFlops / 1e12).epsilon(1e-3));
    CHECK(p.half_tokens == Approx(100).epsilon(1e-2));
    CHECK(p.half_outputs == Approx(20).epsilon(1e-2));
    CHECK(p.half_inputs == Approx(50).epsilon(1e-2));
    CHECK(p.overhead_us == Approx(kOverhead * 1e6).epsilon(1e-2));
  }
  for (const OpRates& r : fitted.ops) {
    CAPTURE(r.op, r.compute);
    if (r.op == "add") CHECK(r.overhead_us == Approx(2).epsilon(1e-2));
    if (r.op != "attention") continue;
    CHECK(r.overhead_us == Approx(5).epsilon(1e-2));
    CHECK(r.tflops == Approx(0.1).epsilon(1e-2));
    CHECK(r.gscores_per_s == Approx(2).epsilon(1e-2));
  }
  REQUIRE(fitted.ops.back().op == "other");
  CHECK(fitted.ops.back().gb_per_s == Approx(20).epsilon(1e-2));
  for (const FitError& e : fitted.errors) CHECK(e.typical < 1e-3);
}

TEST_CASE("predictions of a fit are closer to the true times than the noise of the samples", "[planner][fit]") {
  const ClusterSpec cluster = cluster_of(fit_rates(samples(0.15)));
  const CostModel costs(cluster, 1);
  for (const DType t : {DType::bf16, DType::f32}) {
    for (const OpWork& w : {product("linear", 300, 700, 900, t), product("linear_backward_weight", 2048, 512, 128, t),
                            OpWork{"add", 1e6, 1e6, 0, 0, 0, t}, attention(1e6, 96, t)}) {
      CAPTURE(w.op, w.m, w.bytes);
      CHECK(costs.op_seconds(w) == Approx(seconds_of(w)).epsilon(0.07));
    }
    // An op that was measured in fused calls only: its rates must predict these.
    const OpWork first = product("linear", 128, 128, 10000, t), then{"activation", 1e7, 1e7, 0, 0, 0, t};
    CHECK(costs.op_seconds(first) + costs.op_seconds(then) ==
          Approx(seconds_of(first) + seconds_of(then)).epsilon(0.07));
  }
  // Never measured: predicted as all others that move bytes.
  const OpWork unknown{"permute", 0, 1e7, 0, 0, 0, DType::bf16};
  CHECK(costs.op_seconds(unknown) == Approx(seconds_of(unknown)).epsilon(0.07));
}

TEST_CASE("fitted coefficients are not negative and rates of products are finite", "[planner][fit]") {
  std::vector<OpSample> odd;  // a product that is faster the larger it is
  for (const int64_t n : {64, 128, 256}) odd.push_back({{product("linear", n, n, n, DType::f32)}, 1.0 / n});
  const FittedRates fitted = fit_rates(odd);
  const ProductRates& p = fitted.products.at(0);
  CHECK(p.tflops > 0);
  CHECK(std::isfinite(p.tflops));
  for (const double c : {p.half_tokens, p.half_outputs, p.half_inputs, p.overhead_us}) CHECK(c >= 0);
}

TEST_CASE("no rate is fitted to a negligible part of an op's time", "[planner][fit]") {
  // In exact arithmetic these times have nothing of the flops; after rounding, some 1e-20 seconds each.
  std::vector<OpSample> measured;
  for (double size = 1e3; size < 1e9; size *= 3)
    measured.push_back({{{"add", size * std::log(size), size, 0, 0, 0, DType::f32}}, 1e-6 + size / 20e9});
  for (uint64_t i = 0; i < measured.size(); ++i) measured[i].seconds *= noise(i, 1e-12);
  const OpRates r = fit_rates(measured).ops.front();
  CHECK(r.tflops < 1e6);
  CHECK(r.gb_per_s == Approx(20).epsilon(1e-3));
}

TEST_CASE("fitted products are not faster than the data sheet of their compute type", "[planner][fit]") {
  const PeakRates peaks{.bf16 = 0.9 * kProductFlops, .fp32 = 0};
  for (const ProductRates& p : fit_rates(samples(0), peaks).products) {
    CAPTURE(p.op, p.compute);
    if (p.compute == "bf16")
      CHECK(p.tflops == Approx(peaks.bf16 / 1e12));
    else
      CHECK(p.tflops == Approx(kProductFlops / 1e12).epsilon(1e-3));
  }
}

TEST_CASE("bounded least squares stops at the bounds", "[planner][fit]") {
  // The unbounded minimum is (3, -1).
  const std::vector<std::vector<double>> rows = {{1, 0}, {0, 1}, {1, 1}};
  CHECK(bounded_least_squares(rows, {3, -1, 2}, {-9, -9})[1] == Approx(-1));
  const auto x = bounded_least_squares(rows, {3, -1, 2}, {0, 0});
  CHECK(x[0] == Approx(2.5));
  CHECK(x[1] == 0);
}

TEST_CASE("each kind of link is fitted separately", "[planner][fit]") {
  std::vector<LinkSample> measured;
  const auto add = [&](const char* between, const char* kind, int ranks, double latency, double rate) {
    for (const int64_t sent : {1 << 10, 1 << 16, 1 << 24})
      measured.push_back(
          {between, kind, sent, sent, ranks, latency * std::ceil(std::log2(ranks)) + static_cast<double>(sent) / rate});
  };
  add("ranks", "all_reduce", 6, 4e-6, 3e9);
  add("ranks", "send", 2, 1e-6, 5e9);
  add("nodes", "all_reduce", 2, 20e-6, 1e9);
  const std::vector<LinkRates> links = fit_links(measured);
  REQUIRE(links.size() == 3);
  CHECK(links[0].kind == "all_reduce");
  CHECK(links[0].latency_us == Approx(4).epsilon(1e-3));
  CHECK(links[0].gb_per_s == Approx(3).epsilon(1e-3));
  CHECK(links[1].kind == "send");
  CHECK(links[1].gb_per_s == Approx(5).epsilon(1e-3));
  CHECK(links[2].between == "nodes");
  CHECK(links[2].latency_us == Approx(20).epsilon(1e-3));
}

}  // namespace fp
