// Products fused with their neighbours against the parts on the oracle.
#include <catch2/catch.hpp>

#include "compare.h"
#include "operands.h"

using namespace fp;
using namespace fp::test;

namespace {

struct FusedDims {
  int64_t M, N, K;
};
const std::vector<FusedDims> kFusedShapes{{1, 1, 1}, {7, 3, 33}, {63, 65, 17}, {32, 64, 48}, {130, 96, 80}};

double largest_sum(int64_t inner) { return 16.0 * static_cast<double>(inner); }  // bound for products of normal values
// gelu and its slope change by less than 1.2 times a change of their argument. The bf16 argument may have been rounded.
double through_gelu(double error, double rounding, DType t) {
  return 1.2 * (error + (t == DType::bf16 ? rounding : 0.0));
}

}  // namespace

TEST_CASE("linear_gelu agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const FusedDims& s : kFusedShapes)
      for (const bool with_bias : {false, true}) {
        INFO(s.M << " " << s.N << " " << s.K << " " << name_of(t) << (with_bias ? " bias" : ""));
        Case c;
        const Operand& x = c.input("x", t, {s.M, s.K});
        const Operand& w = c.input("w", t, {s.N, s.K});
        const Operand& bias = with_bias ? c.input("bias", t, {s.N}) : c.none();
        Operand& u = c.output("u", t, {s.M, s.N});
        Operand& y = c.output("y", t, {s.M, s.N});
        const double error = sum_error(s.K + 1, largest_sum(s.K + 1));
        u.bound.assign(u.value.size(), error);
        const double rounding = unit_of(t) * 8.0 * std::sqrt(static_cast<double>(s.K + 1));
        y.bound.assign(y.value.size(),
                       through_gelu(error, 2 * rounding, t) + 8 * kFunction * 8.0 * std::sqrt(s.K + 1.0));
        c.check([&](Ops& ops) { ops.linear_gelu({y, u, x, w, bias}); });
      }
  });
}

TEST_CASE("linear_backward_input_gelu agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const FusedDims& s : kFusedShapes) {
      INFO(s.M << " " << s.N << " " << s.K << " " << name_of(t));
      Case c;
      const Operand& dy = c.input("dy", t, {s.M, s.N});
      const Operand& w = c.input("w", t, {s.N, s.K});
      const Operand& u = c.input("u", t, {s.M, s.K});
      Operand& du = c.output("du", t, {s.M, s.K});
      const double error = sum_error(s.N, largest_sum(s.N)), size = 8.0 * std::sqrt(static_cast<double>(s.N));
      du.bound.assign(du.value.size(), through_gelu(error, 2 * unit_of(t) * size, t) + 32 * kFunction * size);
      c.check([&](Ops& ops) { ops.linear_backward_input_gelu({du, dy, w, u}); });
    }
  });
}

TEST_CASE("linear_backward_weight_bias agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const FusedDims& s : kFusedShapes)
      for (const Write dw_write : {Write::set, Write::add})
        for (const Write db_write : {Write::set, Write::add}) {
          INFO(s.M << " " << s.N << " " << s.K << " " << name_of(t));
          Case c;
          const Operand& dy = c.input("dy", t, {s.M, s.N});
          const Operand& x = c.input("x", t, {s.M, s.K});
          Operand& dw = c.destination("dw", DType::f32, {s.N, s.K}, dw_write);
          Operand& db = c.destination("db", DType::f32, {s.N}, db_write);
          dw.bound.assign(dw.value.size(), sum_error(s.M + 1, largest_sum(s.M + 1)));
          db.bound.assign(db.value.size(), sum_error(s.M + 1, largest_sum(s.M + 1)));
          c.check([&](Ops& ops) { ops.linear_backward_weight_bias({dw, db, dy, x, dw_write, db_write}); });
        }
  });
}
