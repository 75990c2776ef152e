#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "operands.h"

using namespace fp;
using namespace fp::test;

namespace {

struct ColumnsCase {
  int64_t rows, y_columns, y_first, x_columns, x_first, count;
  std::string str() const {
    return fmt::format("{} rows, [{}, {}) of {} from [{}, {}) of {}", rows, y_first, y_first + count, y_columns,
                       x_first, x_first + count, x_columns);
  }
};

// One element; whole rows; nothing; odd places; places that allow 16 bytes at a time, but for one of first, width and
// count; more rows than a block takes, more columns than it has threads; no row.
const std::vector<ColumnsCase> kColumnsCases{
    {1, 1, 0, 1, 0, 1},      {5, 33, 0, 33, 0, 33},   {4, 16, 8, 24, 16, 0},        {7, 13, 3, 9, 5, 4},
    {6, 64, 16, 48, 32, 16}, {6, 64, 17, 48, 32, 16}, {6, 64, 16, 49, 32, 16},      {6, 64, 16, 48, 32, 15},
    {300, 24, 8, 16, 0, 8},  {70, 40, 24, 56, 8, 16}, {3, 5000, 8, 2600, 16, 2568}, {3, 700, 1, 650, 2, 601},
    {0, 16, 0, 16, 0, 8}};

}  // namespace

TEST_CASE("copy_columns agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const ColumnsCase& p : kColumnsCases)
      for (const Write write : {Write::set, Write::add}) {
        INFO(name_of(t) << " " << p.str() << (write == Write::add ? " added" : ""));
        Case c;
        const Operand& x = c.input("x", t, {p.rows, p.x_columns});
        Operand& y = c.inout("y", t, {p.rows, p.y_columns});
        std::vector<double> exact = y.value;
        for (int64_t m = 0; m < p.rows; ++m)
          for (int64_t i = 0; i < p.count; ++i) {
            double& to = exact[m * p.y_columns + p.y_first + i];
            const auto sum =
                static_cast<float>(x.value[m * p.x_columns + p.x_first + i] + (write == Write::add ? to : 0.0));
            to = t == DType::bf16 ? static_cast<float>(bf16(sum)) : sum;
          }
        c.check(
            [&](Ops& ops) {
              ops.copy_columns({y, p.y_first, x, p.x_first, p.count, write});
            },
            [&](const Backend&) { CHECK(y.result == exact); });
      }
  });
}

TEST_CASE("copy_columns overwrites NaN and copies NaN unchanged") {
  for_each_compute_type([](DType t) {
    INFO(name_of(t));
    const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity(), smallest = 0x1p-133;
    Case c;
    const std::vector<double> values{nan, -infinity, -0.0, smallest};
    const Operand& x = c.input("x", t, {3, 4}, [&](double, int64_t i) { return values[static_cast<size_t>(i % 4)]; });
    Operand& y = c.inout("y", t, {3, 8}, constant(nan));
    c.check(
        [&](Ops& ops) {
          ops.copy_columns({y, 4, x, 0, 4, Write::set});
        },
        [&](const Backend&) {
          for (size_t i = 0; i < 24; i += 8) {
            CHECK(std::isnan(y.result[i + 3]));
            CHECK(std::isnan(y.result[i + 4]));
            CHECK(y.result[i + 5] == -infinity);
            CHECK((y.result[i + 6] == 0.0 && std::signbit(y.result[i + 6])));
            CHECK(y.result[i + 7] == smallest);
          }
        });
  });
}
