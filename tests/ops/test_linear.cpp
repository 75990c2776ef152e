#include <catch2/catch.hpp>

#include "compare.h"
#include "operands.h"

using namespace fp;
using namespace fp::test;

namespace {

struct LinearDims {
  int64_t M, N, K;
};

// One row, odd everything, one more and one less than a block, and one shape that is large enough to be split over
// threads.
const std::vector<LinearDims> kLinearShapes{{1, 1, 1},       {1, 65, 33},  {7, 3, 257},  {63, 65, 64},
                                            {65, 63, 7},     {257, 17, 5}, {2, 257, 1},  {130, 96, 80},
                                            {33, 129, 1030}, {64, 64, 64}, {5, 300, 31}, {300, 48, 65}};

std::string text(const LinearDims& s, DType t) { return fmt::format("M={} N={} K={} {}", s.M, s.N, s.K, name_of(t)); }

double magnitude(double x) { return std::abs(x); }

// Sets bound[r,c] to the error of a sum over i of left(r,i) * right(i,c), and of the value already there (inout).
template <class Left, class Right>
void bound_product(Operand& out, int64_t rows, int64_t cols, int64_t inner, Left&& left, Right&& right) {
  out.bound.resize(out.value.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      double sum = 0.0;
      for (int64_t i = 0; i < inner; ++i) sum += magnitude(left(r, i) * right(i, c));
      const auto at = static_cast<size_t>(r * cols + c);
      if (out.role == Role::inout) sum += magnitude(out.value[at]);
      out.bound[at] = sum_error(inner, sum);
    }
}

}  // namespace

TEST_CASE("linear agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const LinearDims& s : kLinearShapes)
      for (const bool with_bias : {false, true}) {
        INFO(text(s, t) << (with_bias ? " bias" : ""));
        Case c;
        const Operand& x = c.input("x", t, {s.M, s.K});
        const Operand& w = c.input("w", t, {s.N, s.K});
        const Operand& bias = with_bias ? c.input("bias", t, {s.N}) : c.none();
        Operand& y = c.output("y", t, {s.M, s.N});
        // The bias is one more term, with weight 1.
        bound_product(
            y, s.M, s.N, s.K + (with_bias ? 1 : 0),
            [&](int64_t m, int64_t k) { return k < s.K ? x.value[m * s.K + k] : 1.0; },
            [&](int64_t k, int64_t n) { return k < s.K ? w.value[n * s.K + k] : bias.value[n]; });
        c.check([&](Ops& ops) { ops.linear({y, x, w, bias}); });
      }
  });
}

TEST_CASE("linear_backward_input agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const LinearDims& s : kLinearShapes) {
      INFO(text(s, t));
      Case c;
      const Operand& dy = c.input("dy", t, {s.M, s.N});
      const Operand& w = c.input("w", t, {s.N, s.K});
      Operand& dx = c.output("dx", t, {s.M, s.K});
      bound_product(
          dx, s.M, s.K, s.N, [&](int64_t m, int64_t n) { return dy.value[m * s.N + n]; },
          [&](int64_t n, int64_t k) { return w.value[n * s.K + k]; });
      c.check([&](Ops& ops) { ops.linear_backward_input({dx, dy, w}); });
    }
  });
}

TEST_CASE("linear_backward_weight agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const LinearDims& s : kLinearShapes)
      for (const Write write : {Write::set, Write::add}) {
        INFO(text(s, t) << (write == Write::add ? " add" : " set"));
        Case c;
        const Operand& dy = c.input("dy", t, {s.M, s.N});
        const Operand& x = c.input("x", t, {s.M, s.K});
        Operand& dw = c.destination("dw", DType::f32, {s.N, s.K}, write);
        bound_product(
            dw, s.N, s.K, s.M, [&](int64_t n, int64_t m) { return dy.value[m * s.N + n]; },
            [&](int64_t m, int64_t k) { return x.value[m * s.K + k]; });
        c.check([&](Ops& ops) { ops.linear_backward_weight({dw, dy, x, write}); });
      }
  });
}

TEST_CASE("bias_backward agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const LinearDims& s : kLinearShapes)
      for (const Write write : {Write::set, Write::add}) {
        INFO(text(s, t) << (write == Write::add ? " add" : " set"));
        Case c;
        const Operand& dy = c.input("dy", t, {s.M, s.N});
        Operand& db = c.destination("db", DType::f32, {s.N}, write);
        bound_product(
            db, 1, s.N, s.M, [](int64_t, int64_t) { return 1.0; },
            [&](int64_t m, int64_t n) { return dy.value[m * s.N + n]; });
        c.check([&](Ops& ops) { ops.bias_backward({db, dy, write}); });
      }
  });
}

TEST_CASE("linear takes activations of any number of dimensions") {
  Case c;
  const Operand& x = c.input("x", DType::f32, {2, 3, 5});
  const Operand& w = c.input("w", DType::f32, {4, 5});
  Operand& y = c.output("y", DType::f32, {6, 4});
  bound_product(
      y, 6, 4, 5, [&](int64_t m, int64_t k) { return x.value[m * 5 + k]; },
      [&](int64_t k, int64_t n) { return w.value[n * 5 + k]; });
  c.check([&](Ops& ops) { ops.linear({y, x, w, Tensor()}); });
}

TEST_CASE("linear uses the new weights after weights_changed") {
  for_each_compute_type([](DType t) {
    constexpr int64_t kIn = 64, kOut = 96, kRows = 33;
    INFO(name_of(t));
    Case c;
    const Operand& x = c.input("x", t, {kRows, kIn});
    Operand& w = c.inout("w", t, {kOut, kIn});
    const Operand& other = c.input("other", t, {kOut, kIn});
    Operand& before = c.output("before", t, {kRows, kOut});
    Operand& y = c.output("y", t, {kRows, kOut});
    Operand& dx = c.output("dx", t, {kRows, kIn});
    const Operand& dy = c.input("dy", t, {kRows, kOut});
    const auto xs = [&](int64_t m, int64_t k) { return x.value[m * kIn + k]; };
    bound_product(before, kRows, kOut, kIn, xs, [&](int64_t k, int64_t n) { return w.value[n * kIn + k]; });
    bound_product(y, kRows, kOut, kIn, xs, [&](int64_t k, int64_t n) { return other.value[n * kIn + k]; });
    bound_product(
        dx, kRows, kIn, kOut, [&](int64_t m, int64_t n) { return dy.value[m * kOut + n]; },
        [&](int64_t n, int64_t k) { return other.value[n * kIn + k]; });
    c.check([&](Ops& ops) {
      ops.linear({before, x, w, Tensor()});
      ops.linear_backward_input({dx, dy, w});
      ops.copy({w, other});
      ops.weights_changed();
      ops.linear({y, x, w, Tensor()});
      ops.linear_backward_input({dx, dy, w});
    });
  });
}
