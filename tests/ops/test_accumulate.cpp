#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "operands.h"

using namespace fp;
using namespace fp::test;

namespace {

// Calls f(type of the destination, type of the source) for each pair.
template <class F>
void for_each_pair_of_types(F&& f) {
  for_each_compute_type([&](DType to) { for_each_compute_type([&](DType from) { f(to, from); }); });
}

}  // namespace

TEST_CASE("accumulate adds in f32 and rounds each sum once") {
  for_each_pair_of_types([](DType to, DType from) {
    // One element; less and more than a thread takes, a block, and several threads of the CPU.
    for (const int64_t n : {1, 7, 8, 24, 1000, 2048, 2055, 40000, 40003}) {
      INFO(name_of(to) << " += " << name_of(from) << ", " << n);
      Case c;
      const Operand& src = c.input("src", from, {n});
      Operand& dst = c.inout("dst", to, {n});
      std::vector<double> exact;
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
        const float sum = static_cast<float>(dst.value[i]) + static_cast<float>(src.value[i]);
        exact.push_back(to == DType::bf16 ? static_cast<float>(bf16(sum)) : sum);
      }
      c.check([&](Ops& ops) { ops.accumulate({dst, src}); }, [&](const Backend&) { CHECK(dst.result == exact); });
    }
  });
}

TEST_CASE("accumulate keeps NaN, infinities and what a small addend does not change") {
  for_each_pair_of_types([](DType to, DType from) {
    INFO(name_of(to) << " += " << name_of(from));
    const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
    const std::vector<double> before{1.0, nan, infinity, infinity, 256.0, -0.0, 1.0, 3.0},
        addend{nan, 1.0, 1.0, -infinity, 0x1p-30, -0.0, 0x1p-9, -3.0};
    Case c;
    const auto of = [](const std::vector<double>& v) {
      return [&v](double, int64_t i) { return v[static_cast<size_t>(i)]; };
    };
    const Operand& src = c.input("src", from, {8}, of(addend));
    Operand& dst = c.inout("dst", to, {8}, of(before));
    c.check(
        [&](Ops& ops) {
          ops.accumulate({dst, src});
        },
        [&](const Backend&) {
          CHECK(std::isnan(dst.result[0]));
          CHECK(std::isnan(dst.result[1]));
          CHECK(dst.result[2] == infinity);
          CHECK(std::isnan(dst.result[3]));
          CHECK(dst.result[4] == 256.0);
          CHECK((dst.result[5] == 0.0 && std::signbit(dst.result[5])));
          CHECK(dst.result[6] == (to == DType::f32 ? 1.0 + 0x1p-9 : 1.0));  // a quarter of the spacing of bf16
          CHECK((dst.result[7] == 0.0 && !std::signbit(dst.result[7])));
        });
  });
}
