// Weights whose source has fewer token ids or positions than the model.
#include <catch2/catch.hpp>
#include <numeric>

#include "interop/grown_rows.h"
#include "model/architecture.h"
#include "ops/backends.h"
#include "support/tiny_models.h"

using namespace fp;
using namespace fp::test;

namespace {

// Tensors whose elements follow from their position.
class Formula final : public TensorReader {
 public:
  static float value(int64_t row, int64_t column) { return static_cast<float>((row * 7 + column * 3) % 11) - 4.5f; }
  void read(const std::string&, const std::string&, const Box& box, float* data, const h5::Window& window) override {
    const bool matrix = box.count.rank() == 2;
    for (int64_t i = 0; i < box.count[0]; ++i)
      for (int64_t j = 0; j < (matrix ? box.count[1] : 1); ++j) {
        const int64_t column = matrix ? window.start[1] + j : 0, width = matrix ? window.dims[1] : 1;
        data[(window.start[0] + i) * width + column] = value(box.start[0] + i, matrix ? box.start[1] + j : 0);
      }
  }
};

// A parameter's tensor and its fingerprint, gathered from the ranks of a mesh.
struct Gathered {
  std::vector<float> values;
  uint64_t print = 0;
};

Gathered load(const ModelSection& m, const GrownRows::ShapeOf& shape_of, const std::string& param, int tp, int shards) {
  Gathered all;
  for (int rank = 0; rank < tp * shards; ++rank) {
    ParamTable table(tp, rank % tp, shards, rank / tp);
    declare_parameters(m, table);
    const auto ops = make_ref_ops();
    Arena arena(ops->allocate(size_t{16} << 20, false), size_t{16} << 20);
    ParamStore store(table, {DType::bf16, true, DType::f32, shards > 1 ? 1 : 0}, arena);
    Formula source;
    GrownRows grown(table, shape_of, source);
    Fingerprints prints = load_weights_from(grown, store, *ops);
    grown.subtract_from(prints);
    const ParamId id = table.find(param);
    all.print += prints[static_cast<size_t>(id)]["param"];
    all.values.resize(static_cast<size_t>(table[id].shape.elements()));
    for (const Fragment& f : table.owned(id)) {
      std::vector<float> part(static_cast<size_t>(f.count.elements()));
      ops->copy_out({part.data(), store.state(kParamSlot, {id, f.offset, f.count.elements()})});
      for (int64_t i = 0; i < f.count[0]; ++i)
        std::copy_n(part.begin() + i * f.count[1], f.count[1],
                    all.values.begin() + (f.start[0] + i) * table[id].shape[1] + f.start[1]);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("new rows are the mean of the source's rows on every mesh", "[interop]") {
  const std::string name = GENERATE(from_range(tiny_names()));
  const ModelSection m = tiny_model(name);  // 37 ids
  ParamTable table;
  declare_parameters(m, table);
  const std::string embedding = table[0].name;
  const int64_t stored = 30, columns = m.hidden;
  const GrownRows::ShapeOf shape_of = [&](const std::string& param) {
    const Shape shape = table[table.find(param)].shape;
    return std::optional<Shape>(shape.rank() == 2 && shape[0] == m.vocab ? Shape{stored, shape[1]} : shape);
  };
  std::vector<float> expected, source;
  for (int64_t row = 0; row < m.vocab; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      double sum = 0;
      for (int64_t r = 0; r < stored; ++r) sum += Formula::value(r, column);
      expected.push_back(row < stored ? Formula::value(row, column) : static_cast<float>(sum / stored));
      if (row < stored) source.push_back(expected.back());
    }
  const Shape shape{stored, columns};
  const uint64_t print = fingerprint(shape, {{0, 0}, shape}, source.data(), {shape, {0, 0}});
  for (const auto& [tp, shards] : {std::pair{1, 1}, {2, 1}, {1, 3}, {2, 2}}) {
    CAPTURE(name, tp, shards);
    const Gathered all = load(m, shape_of, embedding, tp, shards);
    CHECK(all.values == expected);
    CHECK(all.print == print);
  }
}

TEST_CASE("only tensors outside the layers grow, and only along their rows", "[interop]") {
  ParamTable table;
  declare_parameters(tiny_model("gpt"), table);
  const auto may_grow = [&](const std::string& param, const Shape& stored) {
    return GrownRows::may_grow(table[table.find(param)], stored);
  };
  CHECK(may_grow("wte.weight", {30, 16}));
  CHECK(may_grow("wpe.weight", {16, 16}));
  CHECK_FALSE(may_grow("wte.weight", {37, 16}));  // the same
  CHECK_FALSE(may_grow("wte.weight", {40, 16}));  // it would shrink
  CHECK_FALSE(may_grow("wte.weight", {30, 12}));  // another width
  CHECK_FALSE(may_grow("ln_f.weight", {12}));
  CHECK_FALSE(may_grow("h.0.mlp.c_fc.weight", {12, 16}));
}
