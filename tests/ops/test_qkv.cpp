#include <catch2/catch.hpp>

#include "compare.h"
#include "operands.h"

using namespace fp;
using namespace fp::test;

namespace {

struct QkvCase {
  int64_t tokens;
  HeadLayout layout;
  bool rotate;
};

const std::vector<QkvCase> kQkvCases{{1, {1, 1, 2, false}, true},   {7, {3, 3, 16, false}, false},
                                     {65, {4, 2, 40, false}, true}, {33, {8, 1, 80, false}, true},
                                     {63, {6, 3, 64, true}, true},  {7, {4, 4, 96, true}, true},
                                     {5, {8, 2, 128, true}, true},  {3, {2, 1, 256, false}, true},
                                     {9, {5, 5, 7, false}, false},  {9, {6, 2, 7, true}, false}};

constexpr int64_t kPositions = 100;

struct QkvOperands {
  QkvOperands(Case& c, const QkvCase& q, DType t, bool backward) {
    const auto make = [&](const char* name, const Shape& s, bool out) -> Operand& {
      return out ? c.output(name, t, s) : c.input(name, t, s);
    };
    const HeadLayout& l = q.layout;
    fused = &make("qkv", {q.tokens, l.columns()}, backward);
    parts[0] = &make("q", {q.tokens, l.heads, l.head_dim}, !backward);
    parts[1] = &make("k", {q.tokens, l.kv_heads, l.head_dim}, !backward);
    parts[2] = &make("v", {q.tokens, l.kv_heads, l.head_dim}, !backward);
    std::vector<int32_t> places;
    for (int64_t m = 0; m < q.tokens; ++m) places.push_back(static_cast<int32_t>((m * 31 + 3) % kPositions));
    const auto half = l.head_dim / 2;
    cos = q.rotate ? &c.input("cos", DType::f32, {kPositions, half}) : &c.none();
    sin = q.rotate ? &c.input("sin", DType::f32, {kPositions, half}) : &c.none();
    positions = q.rotate ? &c.ids("positions", {q.tokens}, places) : &c.none();
  }
  Operand *fused, *parts[3], *cos, *sin, *positions;

  // A rotated element is x*cos -+ partner*sin: three roundings of each product.
  void bound(const QkvCase& q, bool backward) {
    const HeadLayout& l = q.layout;
    const int64_t d = l.head_dim, half = d / 2;
    for (Operand* o : {fused, parts[0], parts[1], parts[2]}) o->bound.assign(o->value.size(), 0.0);
    if (!q.rotate) return;
    for (int64_t m = 0; m < q.tokens; ++m)
      for (int part = 0; part < 2; ++part)
        for (int64_t j = 0; j < (part == 0 ? l.heads : l.kv_heads); ++j) {
          const int64_t at_fused = m * l.columns() + (part == 0 ? l.q_column(j) : l.k_column(j));
          const int64_t at_part = (m * (part == 0 ? l.heads : l.kv_heads) + j) * d;
          const Operand& in = backward ? *parts[part] : *fused;
          Operand& out = backward ? *fused : *parts[part];
          const int64_t from = backward ? at_part : at_fused, to = backward ? at_fused : at_part;
          for (int64_t i = 0; i < d; ++i) {
            const auto row = static_cast<int64_t>(positions->value[m]) * half + i % half;
            const double products = std::abs(in.value[from + i] * cos->value[row]) +
                                    std::abs(in.value[from + (i + half) % d] * sin->value[row]);
            out.bound[to + i] = 3 * kUnit * products;
          }
        }
  }
};

std::string text(const QkvCase& q, DType t) {
  return fmt::format("M={} H={} K={} d={}{}{} {}", q.tokens, q.layout.heads, q.layout.kv_heads, q.layout.head_dim,
                     q.layout.grouped ? " grouped" : "", q.rotate ? " rotated" : "", name_of(t));
}

}  // namespace

TEST_CASE("split_qkv agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const QkvCase& q : kQkvCases) {
      INFO(text(q, t));
      Case c;
      QkvOperands o(c, q, t, false);
      o.bound(q, false);
      c.check([&](Ops& ops) {
        ops.split_qkv({*o.parts[0], *o.parts[1], *o.parts[2], *o.fused, q.layout, {*o.cos, *o.sin}, *o.positions});
      });
    }
  });
}

TEST_CASE("split_qkv_backward agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const QkvCase& q : kQkvCases) {
      INFO(text(q, t));
      Case c;
      QkvOperands o(c, q, t, true);
      o.bound(q, true);
      c.check([&](Ops& ops) {
        ops.split_qkv_backward(
            {*o.fused, *o.parts[0], *o.parts[1], *o.parts[2], q.layout, {*o.cos, *o.sin}, *o.positions});
      });
    }
  });
}

TEST_CASE("split_qkv splits columns according to the layout") {
  // 4 heads on 2 kv heads of size 1: values are column indices.
  for (const bool grouped : {false, true}) {
    Case c;
    const HeadLayout layout{4, 2, 1, grouped};
    const Operand& qkv = c.input("qkv", DType::f32, {1, 8}, [](double, int64_t i) { return static_cast<double>(i); });
    const Operand& q = c.output("q", DType::f32, {1, 4, 1});
    const Operand& k = c.output("k", DType::f32, {1, 2, 1});
    const Operand& v = c.output("v", DType::f32, {1, 2, 1});
    c.check([&](Ops& ops) { ops.split_qkv({q, k, v, qkv, layout, {}, Tensor()}); });
    CHECK(q.expected == (grouped ? std::vector<double>{0, 1, 4, 5} : std::vector<double>{0, 1, 2, 3}));
    CHECK(k.expected == (grouped ? std::vector<double>{2, 6} : std::vector<double>{4, 5}));
    CHECK(v.expected == (grouped ? std::vector<double>{3, 7} : std::vector<double>{6, 7}));
  }
}

TEST_CASE("split_qkv rotates pairs of elements from the two halves of a head") {
  Case c;
  const HeadLayout layout{1, 1, 4, false};
  const Operand& qkv =
      c.input("qkv", DType::f32, {1, 12}, [](double, int64_t i) { return static_cast<double>(i + 1); });
  const Operand& cos = c.input("cos", DType::f32, {2, 2}, [](double, int64_t i) {
    return i < 2 ? 9.0 : i == 2 ? 0.0 : 0.5;
  });
  const Operand& sin = c.input("sin", DType::f32, {2, 2}, [](double, int64_t i) {
    return i < 2 ? 9.0 : i == 2 ? 1.0 : 0.25;
  });
  const Operand& positions = c.ids("positions", {1}, {1});
  const Operand& q = c.output("q", DType::f32, {1, 1, 4});
  const Operand& k = c.output("k", DType::f32, {1, 1, 4});
  const Operand& v = c.output("v", DType::f32, {1, 1, 4});
  c.check([&](Ops& ops) { ops.split_qkv({q, k, v, qkv, layout, {cos, sin}, positions}); });
  CHECK(q.expected == std::vector<double>{-3, 2 * 0.5 - 4 * 0.25, 1, 4 * 0.5 + 2 * 0.25});
  CHECK(k.expected == std::vector<double>{-7, 6 * 0.5 - 8 * 0.25, 5, 8 * 0.5 + 6 * 0.25});
  CHECK(v.expected == std::vector<double>{9, 10, 11, 12});
}

TEST_CASE("rope rotates as split_qkv does, in place too, and back") {
  for_each_compute_type([](DType t) {
    for (const QkvCase& q : kQkvCases)
      for (const bool back : {false, true}) {
        if (!q.rotate) continue;
        INFO(text(q, t) << (back ? " back" : ""));
        // The columns of one tensor of heads: q is the fused tensor, and k and v have one head that is not looked at.
        const int64_t H = q.layout.heads, d = q.layout.head_dim;
        const HeadLayout one{H, 1, d, false};
        std::vector<int32_t> places;
        for (int64_t m = 0; m < q.tokens; ++m) places.push_back(static_cast<int32_t>((m * 31 + 3) % kPositions));
        Case c;
        const Operand& fused = c.input("qkv", t, {q.tokens, one.columns()});
        const Operand& cos = c.input("cos", DType::f32, {kPositions, d / 2});
        const Operand& sin = c.input("sin", DType::f32, {kPositions, d / 2});
        const Operand& positions = c.ids("positions", {q.tokens}, places);
        Operand& split = c.output("split", t, {q.tokens, H, d});
        Operand& k = c.output("k", t, {q.tokens, 1, d});
        Operand& v = c.output("v", t, {q.tokens, 1, d});
        Operand& alone = c.output("alone", t, {q.tokens, H, d});
        Operand& inverse = c.output("inverse", t, {q.tokens, H, d});
        // Both directions, of values that the split has left as they were.
        const auto bound = [&](Operand& o) {
          o.bound.assign(o.value.size(), 0.0);
          for (int64_t i = 0; i < q.tokens * H * d; ++i) {
            const int64_t m = i / (H * d), in_head = i % d, head = m * one.columns() + i / d % H * d;
            const auto row = static_cast<int64_t>(positions.value[m]) * (d / 2) + in_head % (d / 2);
            o.bound[i] = 3 * kUnit *
                         (std::abs(fused.value[head + in_head] * cos.value[row]) +
                          std::abs(fused.value[head + (in_head + d / 2) % d] * sin.value[row]));
          }
        };
        bound(alone), bound(inverse);
        split.bound.assign(split.value.size(), 0.0);
        c.check(
            [&](Ops& ops) {
              ops.split_qkv({split, k, v, fused, one});
              ops.rope({alone, split, {cos, sin}, positions, back});
              ops.copy({inverse, split});
              ops.rope({inverse, inverse, {cos, sin}, positions, back});
            },
            [&](const Backend&) { CHECK(alone.result == inverse.result); });
      }
  });
}

TEST_CASE("a split and rope have the bits of a split that rotates") {
  for_each_compute_type([](DType t) {
    for (const QkvCase& q : kQkvCases) {
      if (!q.rotate) continue;
      INFO(text(q, t));
      Case c;
      QkvOperands o(c, q, t, false);
      o.bound(q, false);
      Operand& split_q = c.output("q of its own", t, {q.tokens, q.layout.heads, q.layout.head_dim});
      Operand& split_k = c.output("k of its own", t, {q.tokens, q.layout.kv_heads, q.layout.head_dim});
      split_q.bound = o.parts[0]->bound, split_k.bound = o.parts[1]->bound;
      const auto same = [](const Operand& a, const Operand& b) { CHECK(a.result == b.result); };
      c.check(
          [&](Ops& ops) {
            ops.split_qkv({split_q, split_k, *o.parts[2], *o.fused, q.layout});
            ops.rope({split_q, split_q, {*o.cos, *o.sin}, *o.positions});
            ops.rope({split_k, split_k, {*o.cos, *o.sin}, *o.positions});
            ops.split_qkv({*o.parts[0], *o.parts[1], *o.parts[2], *o.fused, q.layout, {*o.cos, *o.sin}, *o.positions});
          },
          [&](const Backend&) { same(split_q, *o.parts[0]), same(split_k, *o.parts[1]); });
    }
  });
}
