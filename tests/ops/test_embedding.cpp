#include <catch2/catch.hpp>

#include "compare.h"
#include "operands.h"

using namespace fp;
using namespace fp::test;

namespace {

// Ids that repeat, some often: id 0 for every third token.
std::vector<int32_t> some_ids(int64_t tokens, int64_t vocabulary) {
  std::vector<int32_t> ids;
  for (int64_t m = 0; m < tokens; ++m) ids.push_back(m % 3 == 0 ? 0 : static_cast<int32_t>(m * 7919 % vocabulary));
  return ids;
}

}  // namespace

TEST_CASE("embedding agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const auto& [M, V, h] :
         std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {7, 5, 33}, {65, 257, 64}, {300, 11, 80}})
      for (const bool with_positions : {false, true}) {
        INFO(name_of(t) << " M=" << M << " V=" << V << " h=" << h << (with_positions ? " positions" : ""));
        const double scale = with_positions ? 1.0 : 10.0;
        Case c;
        const Operand& table = c.input("table", t, {V, h});
        const auto id_values = some_ids(M, V);
        const Operand& ids = c.ids("ids", {M}, id_values);
        const int64_t P = 1024;
        std::vector<int32_t> places;
        for (int64_t m = 0; m < M; ++m) places.push_back(static_cast<int32_t>((m * 5 + 3) % P));
        const Operand& positions = with_positions ? c.ids("positions", {M}, places) : c.none();
        const Operand& positions_table = with_positions ? c.input("positions_table", t, {P, h}) : c.none();
        Operand& y = c.output("y", t, {M, h});
        y.bound.resize(y.value.size());
        for (int64_t m = 0; m < M; ++m)
          for (int64_t i = 0; i < h; ++i) {
            double sum = std::abs(scale * table.value[id_values[m] * h + i]);
            if (with_positions) sum += std::abs(positions_table.value[places[m] * h + i]);
            y.bound[m * h + i] = 2 * kUnit * sum;
          }
        c.check([&](Ops& ops) { ops.embedding(y, ids, table, positions, positions_table, scale); });
      }
  });
}

TEST_CASE("embedding_backward agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const auto& [M, V, h] :
         std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {7, 5, 33}, {65, 257, 64}, {1030, 11, 80}, {8200, 40, 1}}) {
      INFO(name_of(t) << " M=" << M << " V=" << V << " h=" << h);
      const double scale = 10.0;
      Case c;
      const Operand& dy = c.input("dy", t, {M, h});
      const auto id_values = some_ids(M, V);
      const Operand& ids = c.ids("ids", {M}, id_values);
      Operand& dtable = c.inout("dtable", DType::f32, {V, h});
      std::vector<double> magnitude(dtable.value.size());
      std::vector<int64_t> uses(static_cast<size_t>(V), 0);
      for (size_t i = 0; i < magnitude.size(); ++i) magnitude[i] = std::abs(dtable.value[i]);
      for (int64_t m = 0; m < M; ++m) {
        ++uses[id_values[m]];
        for (int64_t i = 0; i < h; ++i) magnitude[id_values[m] * h + i] += std::abs(scale * dy.value[m * h + i]);
      }
      for (int64_t i = 0; i < V * h; ++i)
        dtable.bound.push_back(uses[i / h] == 0 ? 0.0 : sum_error(uses[i / h], magnitude[i]));
      c.check([&](Ops& ops) { ops.embedding_backward(dtable, dy, ids, scale); });
    }
  });
}
