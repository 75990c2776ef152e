#include <catch2/catch.hpp>

#include "compare.h"
#include "operands.h"

using namespace fp;
using namespace fp::test;

namespace {

constexpr int64_t kSizes[] = {1, 15, 64, 1000, 32768, 32769, 200003};

// Number of terms that a backend may add up in f32 before it continues in double.
constexpr int64_t kLongestRun = 256;

}  // namespace

TEST_CASE("bit_sums agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const int64_t n : kSizes) {
      INFO(name_of(t) << ", " << n << " elements");
      Case c;
      const Operand& x = c.input("x", t, {n});
      const Operand& sums = c.output("sums", DType::i32, {2});
      c.check([&](Ops& ops) { ops.bit_sums({sums, x}); });
    }
  });
}

TEST_CASE("bit_sums changes with each element, and with the order of elements") {
  const int64_t n = 70;
  const auto sums_of = [&](const Fill& fill) {
    Case c;
    const Operand& x = c.input("x", DType::f32, {n}, fill);
    const Operand& sums = c.output("sums", DType::i32, {2});
    c.run(oracle(), [&](Ops& ops) { ops.bit_sums({sums, x}); });
    return sums.result;
  };
  const std::vector<double> plain = sums_of([](double, int64_t i) { return static_cast<double>(i); });
  for (const int64_t changed : {int64_t{0}, int64_t{16}, n - 1}) {
    const auto one = sums_of([&](double, int64_t i) { return i == changed ? -1.0 : static_cast<double>(i); });
    CHECK(one[0] != plain[0]);
  }
  const auto swapped = sums_of([](double, int64_t i) { return static_cast<double>(i == 3 ? 4 : i == 4 ? 3 : i); });
  CHECK(swapped[0] == plain[0]);
  CHECK(swapped[1] != plain[1]);
}

TEST_CASE("piece_sums agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const int64_t pieces : {1, 2, 3, 8})
      for (const int64_t n : kSizes) {
        INFO(name_of(t) << ", " << pieces << " pieces of " << n);
        Case c;
        const Operand& x = c.input("x", t, {pieces * n});
        Operand& sums = c.output("sums", DType::f32, {pieces, 2});
        for (int64_t p = 0; p < pieces; ++p) {
          double magnitude = 0;
          for (int64_t i = 0; i < n; ++i) magnitude += std::abs(x.value[static_cast<size_t>(p * n + i)]);
          const double bound = sum_error(std::min(n, kLongestRun), magnitude);
          sums.bound.insert(sums.bound.end(), {bound, bound});
        }
        c.check([&](Ops& ops) { ops.piece_sums({sums, x}); });
      }
  });
}

TEST_CASE("piece_sums is not finite for pieces with a non-finite element") {
  for (const double bad : {std::nan(""), kInfinity, -kInfinity}) {
    Case c;
    const Operand& x = c.input("x", DType::f32, {1000}, [&](double v, int64_t i) { return i == 517 ? bad : v; });
    const Operand& sums = c.output("sums", DType::f32, {2, 2});
    for (const Backend& backend : backends()) {
      INFO(backend.name);
      c.run(backend, [&](Ops& ops) { ops.piece_sums({sums, x}); });
      CHECK(std::isfinite(sums.result[0]));
      CHECK(!std::isfinite(sums.result[2]));
      CHECK(!std::isfinite(sums.result[3]));
    }
  }
}
