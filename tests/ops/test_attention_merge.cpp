#include <catch2/catch.hpp>
#include <limits>

#include "attention_cases.h"
#include "compare.h"

using namespace fp;
using namespace fp::test;

namespace {

struct Extent {
  int64_t B, T, H, d;
};

// Two partial results as attention may return them: every fifth row of one and every seventh of the other saw no key.
// Their o holds NaN, which must not reach the result.
void check_merge(const Extent& e, DType part_type) {
  INFO("B=" << e.B << " T=" << e.T << " H=" << e.H << " d=" << e.d << " part " << name_of(part_type));
  Case c;
  Operand& o = c.inout("o", DType::f32, {e.B, e.T, e.H, e.d});
  Operand& lse = c.inout("lse", DType::f32, {e.B, e.H, e.T}, scaled(8.0));
  Operand& o_part = c.input("o_part", part_type, {e.B, e.T, e.H, e.d});
  Operand& lse_part = c.input("lse_part", DType::f32, {e.B, e.H, e.T}, scaled(8.0));
  o.bound.assign(o.value.size(), 0.0);
  lse.bound.assign(lse.value.size(), 0.0);
  for (int64_t row = 0; row < e.B * e.T * e.H; ++row) {
    const int64_t token = row / e.H;
    const auto at = static_cast<size_t>((token / e.T * e.H + row % e.H) * e.T + token % e.T);
    double &a = lse.value[at], &b = lse_part.value[at];
    if (row % 5 == 2) a = -kInfinity;
    if (row % 7 == 3) b = -kInfinity;
    const double l = std::max(a, b), apart = std::isfinite(a) && std::isfinite(b) ? std::abs(a - b) : 0.0;
    lse.bound[at] = std::isfinite(l) ? 2 * kFunction + 4 * kUnit * std::abs(l) : 0.0;
    for (auto i = static_cast<size_t>(row * e.d); i < static_cast<size_t>((row + 1) * e.d); ++i) {
      const double own = std::isfinite(a) ? std::abs(o.value[i]) : 0.0;
      const double part = std::isfinite(b) ? std::abs(o_part.value[i]) : 0.0;
      if (!std::isfinite(a)) o.value[i] = std::nan("");
      if (!std::isfinite(b)) o_part.value[i] = std::nan("");
      // Two exponentials and their quotient; the difference of two lse is rounded once.
      o.bound[i] = (own + part) * (3 * kFunction + kUnit * apart);
    }
  }
  c.check([&](Ops& ops) { ops.attention_merge({o, lse, o_part, lse_part}); });
}

}  // namespace

TEST_CASE("attention_merge agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const Extent& e : {Extent{1, 1, 1, 1}, Extent{2, 37, 3, 8}, Extent{1, 9, 4, 33}, Extent{1, 70, 2, 128}})
      check_merge(e, t);
  });
}

TEST_CASE("attention over two parts of the keys, merged on the device, equals attention over all keys") {
  const int64_t kLength = 50, kCut = 29;
  AttentionCase whole{.B = 1,
                      .Tq = kLength,
                      .Tk = kLength,
                      .H = 4,
                      .K = 2,
                      .d = 16,
                      .spec = {},
                      .documents = false,
                      .dtype = DType::f32};
  whole.spec.scale = 0.25;
  Case c;
  const AttentionOperands all(c, whole, AttentionOperands::Pass::forward);
  Operand &o = c.output("o", DType::f32, all.q->shape), &o_part = c.output("o_part", DType::f32, all.q->shape);
  Operand &lse = c.output("lse", DType::f32, all.lse->shape), &part = c.output("lse_part", DType::f32, lse.shape);
  // With a batch of one, keys [0, kCut) are the first rows of k.
  const auto attend = [&](Ops& ops, const Tensor& to, const Tensor& to_lse, int64_t first, int64_t count) {
    const Shape rows{kLength, whole.K, whole.d}, keys{1, count, whole.K, whole.d};
    AttentionSpec spec = whole.spec;
    spec.k_offset = first;
    const Tensor k = all.k->tensor.reshaped(rows).slice(first, count),
                 v = all.v->tensor.reshaped(rows).slice(first, count);
    ops.attention({to, to_lse, *all.q, k.reshaped(keys), v.reshaped(keys), {}, {}, spec});
  };
  std::vector<Backend> every = backends();
  every.push_back(oracle());
  for (const Backend& backend : every) {
    INFO(backend.name);
    c.run(backend, [&](Ops& ops) {
      all.forward(ops);
      attend(ops, o, lse, kCut, kLength - kCut);  // the first queries see none of these
      attend(ops, o_part, part, 0, kCut);
      ops.attention_merge({o, lse, o_part, part});
    });
    double worst = 0.0;
    for (size_t i = 0; i < o.result.size(); ++i) worst = std::max(worst, std::abs(o.result[i] - all.o->result[i]));
    for (size_t i = 0; i < lse.result.size(); ++i)
      worst = std::max(worst, std::abs(lse.result[i] - all.lse->result[i]));
    CHECK(worst < 64 * kUnit * 8);
  }
}
