#include <catch2/catch.hpp>

#include "compare.h"
#include "operands.h"

using namespace fp;
using namespace fp::test;

namespace {

// Returns ids that repeat, some often: id 0 for every third token. `none`: every fifth id is -1.
std::vector<int32_t> some_ids(int64_t tokens, int64_t vocabulary, bool none) {
  std::vector<int32_t> ids;
  for (int64_t m = 0; m < tokens; ++m)
    ids.push_back(none && m % 5 == 1 ? -1 : m % 3 == 0 ? 0 : static_cast<int32_t>(m * 7919 % vocabulary));
  return ids;
}

}  // namespace

TEST_CASE("embedding agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const auto& [M, V, h] :
         std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {7, 5, 33}, {65, 257, 64}, {300, 11, 80}})
      for (const bool with_positions : {false, true})
        for (const bool none : {false, true}) {
          INFO(name_of(t) << " M=" << M << " V=" << V << " h=" << h << (with_positions ? " positions" : "")
                          << (none ? " some without a row" : ""));
          const double scale = with_positions ? 1.0 : 10.0;
          Case c;
          const Operand& table = c.input("table", t, {V, h});
          const auto id_values = some_ids(M, V, none);
          const Operand& ids = c.ids("ids", {M}, id_values);
          const int64_t P = 1024;
          std::vector<int32_t> places;
          for (int64_t m = 0; m < M; ++m)
            places.push_back(none && m % 4 == 2 ? -1 : static_cast<int32_t>((m * 5 + 3) % P));
          const Operand& positions = with_positions ? c.ids("positions", {M}, places) : c.none();
          const Operand& positions_table = with_positions ? c.input("positions_table", t, {P, h}) : c.none();
          Operand& y = c.output("y", t, {M, h});
          y.bound.resize(y.value.size());
          for (int64_t m = 0; m < M; ++m)
            for (int64_t i = 0; i < h; ++i) {
              double sum = id_values[m] < 0 ? 0.0 : std::abs(scale * table.value[id_values[m] * h + i]);
              if (with_positions && places[m] >= 0) sum += std::abs(positions_table.value[places[m] * h + i]);
              y.bound[m * h + i] = 2 * kUnit * sum;
            }
          c.check([&](Ops& ops) { ops.embedding({y, ids, table, positions, positions_table, scale}); });
        }
  });
}

TEST_CASE("embedding_backward agrees with the oracle") {
  for_each_compute_type([](DType t) {
    for (const auto& [M, V, h] :
         std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {7, 5, 33}, {65, 257, 64}, {1030, 11, 80}, {8200, 40, 1}})
      for (const bool none : {false, true}) {
        if (M > 1000 && !none) continue;  // the cases with few ids cover the difference
        INFO(name_of(t) << " M=" << M << " V=" << V << " h=" << h << (none ? " some without a row" : ""));
        const double scale = 10.0;
        Case c;
        const Operand& dy = c.input("dy", t, {M, h});
        const auto id_values = some_ids(M, V, none);
        const Operand& ids = c.ids("ids", {M}, id_values);
        Operand& dtable = c.inout("dtable", DType::f32, {V, h});
        std::vector<double> magnitude(dtable.value.size());
        std::vector<int64_t> uses(static_cast<size_t>(V), 0);
        for (size_t i = 0; i < magnitude.size(); ++i) magnitude[i] = std::abs(dtable.value[i]);
        for (int64_t m = 0; m < M; ++m) {
          if (id_values[m] < 0) continue;
          ++uses[id_values[m]];
          for (int64_t i = 0; i < h; ++i) magnitude[id_values[m] * h + i] += std::abs(scale * dy.value[m * h + i]);
        }
        for (int64_t i = 0; i < V * h; ++i)
          dtable.bound.push_back(uses[i / h] == 0 ? 0.0 : sum_error(uses[i / h], magnitude[i]));
        c.check([&](Ops& ops) { ops.embedding_backward({dtable, dy, ids, scale}); });
      }
  });
}

TEST_CASE("embeddings from row slices of a table add up to those of the whole table") {
  // As in tensor parallelism: three ranks of 8 rows, each of which gets -1 for the ids of others. A token has one row,
  // so the sums are exact. Rows from 16 on are not used: their rank only gets -1.
  const int64_t M = 70, V = 24, h = 40, kRows = 8;
  for_each_compute_type([&](DType t) {
    INFO(name_of(t));
    const auto values = some_ids(M, 16, false);
    Case c;
    const Operand &table = c.input("table", t, {V, h}), &dy = c.input("dy", t, {M, h});
    const Operand &ids = c.ids("ids", {M}, values), &y = c.output("y", t, {M, h});
    const Operand& dtable = c.inout("dtable", DType::f32, {V, h});
    std::vector<const Operand*> own_ids, own_y, own_gradient;
    for (int64_t rank = 0; rank < V / kRows; ++rank) {
      std::vector<int32_t> own;
      for (const int32_t id : values) own.push_back(id / kRows == rank ? id % static_cast<int32_t>(kRows) : -1);
      own_ids.push_back(&c.ids("own_ids", {M}, own));
      own_y.push_back(&c.output("own_y", t, {M, h}));
      own_gradient.push_back(&c.inout("own_gradient", DType::f32, {kRows, h}, [&, rank](double, int64_t i) {
        return dtable.value[static_cast<size_t>(rank * kRows * h + i)];
      }));
    }
    const auto call = [&](Ops& ops) {
      ops.embedding({y, ids, table, {}, {}, 3.0});
      ops.embedding_backward({dtable, dy, ids, 3.0});
      for (size_t rank = 0; rank < own_ids.size(); ++rank) {
        const Tensor rows = table.tensor.slice(static_cast<int64_t>(rank) * kRows, kRows);
        ops.embedding({*own_y[rank], *own_ids[rank], rows, {}, {}, 3.0});
        ops.embedding_backward({*own_gradient[rank], dy, *own_ids[rank], 3.0});
      }
    };
    std::vector<Backend> every = backends();
    every.push_back(oracle());
    for (const Backend& backend : every) {
      INFO(backend.name);
      c.run(backend, call);
      std::vector<double> sum(y.result.size(), 0.0), gradient;
      for (const Operand* part : own_y)
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += part->result[i];
      for (const Operand* part : own_gradient)
        gradient.insert(gradient.end(), part->result.begin(), part->result.end());
      CHECK(sum == y.result);
      CHECK(gradient == dtable.result);
    }
  });
}
