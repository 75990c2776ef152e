#include <catch2/catch.hpp>
#include <cmath>

#include "compare.h"
#include "operands.h"

using namespace fp;
using namespace fp::test;

namespace {

constexpr int64_t kSizes[] = {1, 7, 8, 24, 1000, 2055, 40003};

template <class F>
void for_each_pair_of_types(F&& f) {
  for_each_compute_type([&](DType to) { for_each_compute_type([&](DType from) { f(to, from); }); });
}

double magnitude(double a, double b) { return std::abs(a) + std::abs(b); }

}  // namespace

TEST_CASE("scaled_add agrees with the oracle") {
  for_each_pair_of_types([](DType to, DType from) {
    for (const int64_t n : kSizes)
      for (const bool two : {false, true}) {
        INFO(name_of(to) << " from " << name_of(from) << ", " << n << (two ? ", two operands" : ""));
        Case c;
        const Operand& a = c.input("a", from, {n});
        const Operand& b = two ? c.input("b", from, {n}) : c.none();
        Operand& y = c.output("y", to, {n});
        for (size_t i = 0; i < static_cast<size_t>(n); ++i)
          y.bound.push_back(4 * kUnit * magnitude(0.95 * a.value[i], two ? -3.3 * b.value[i] : 0.0));
        c.check([&](Ops& ops) { ops.scaled_add({y, a, b, 0.95, -3.3}); });
      }
  });
}

TEST_CASE("scaled_add may write to an operand of its type") {
  for_each_compute_type([](DType t) {
    for (const int64_t n : kSizes)
      for (const bool first : {false, true}) {
        INFO(name_of(t) << ", " << n << (first ? ", a" : ", b"));
        Case c;
        Operand& y = c.inout("y", t, {n});
        const Operand& other = c.input("other", t, {n});
        for (size_t i = 0; i < static_cast<size_t>(n); ++i)
          y.bound.push_back(4 * kUnit * magnitude(3.4 * y.value[i], 3.4 * other.value[i]));
        c.check([&](Ops& ops) {
          if (first)
            ops.scaled_add({y, y, other, 3.4, 1.0});
          else
            ops.scaled_add({y, other, y, 3.4, 1.0});
        });
      }
  });
}

TEST_CASE("scaled_add rounds the sum once") {
  Case c;
  const Operand& a = c.input("a", DType::bf16, {1}, constant(256.0));
  const Operand& b = c.input("b", DType::bf16, {1}, constant(171.0 / 256));
  Operand& y = c.output("y", DType::bf16, {1});
  // 257 + 2^-9, above the middle of 256 and 258; were 1.5 * b rounded first, the sum would be that middle.
  c.check(
      [&](Ops& ops) {
        ops.scaled_add({y, a, b, 1.0, 1.5});
      },
      [&](const Backend&) { CHECK(y.result == std::vector<double>{258.0}); });
}

TEST_CASE("the bits of scaled_add do not depend on where tensors are cut") {
  constexpr int64_t kCount = 300;
  constexpr size_t kBytes = size_t{1} << 16;
  std::vector<float> a(kCount), b(kCount);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = std::sin(static_cast<float>(i));
    b[i] = std::cos(3.0F * static_cast<float>(i));
  }
  for (const Backend& backend : backends()) {
    CAPTURE(backend.name);
    Ops& ops = *backend.ops;
    Arena arena(ops.allocate(kBytes, false), kBytes);
    const auto alloc = [&] { return arena.alloc(DType::f32, {kCount}); };
    const ArenaTensor x = alloc(), z = alloc(), whole = alloc(), cut = alloc();
    ops.copy_in({x, a.data()});
    ops.copy_in({z, b.data()});
    ops.scaled_add({whole, x, z, 0.95, 0.7});
    for (int64_t at = 0; at < kCount; at += 8) {
      const int64_t n = std::min<int64_t>(8, kCount - at);
      ops.scaled_add({cut->slice(at, n), x->slice(at, n), z->slice(at, n), 0.95, 0.7});
    }
    std::vector<float> in_one(kCount), in_parts(kCount);
    ops.copy_out({in_one.data(), whole});
    ops.copy_out({in_parts.data(), cut});
    CHECK(in_one == in_parts);
  }
}
