#include <cmath>

#include "checkpoint/inspect.h"
#include "fixture.h"

namespace fp::test {
namespace {

using std::filesystem::path;

// Saves one tensor with these values; the moments are twice and four times as large.
path save_values(const path& dir, const std::vector<float>& values, int64_t step = 1) {
  ParamTable table;
  table.add("w", {2, static_cast<int64_t>(values.size()) / 2}, Partition::replicated(), {});
  table.set_slots(slots());
  State s(table);
  float scale = 1.0f;
  for (int slot = 0; slot < s.table.slot_count(); ++slot) {
    float* to = s.store.state(slot, {0, 0, s.table[0].local_elements()}).ptr<float>();
    for (size_t i = 0; i < values.size(); ++i) to[i] = scale * values[i];
    scale *= 2.0f;
  }
  return save_checkpoint(dir, s.store, *s.ops, some_state(step), {});
}

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

TEST_CASE("statistics of a tensor") {
  const MemoryFolder dir;
  const Checkpoint c = Checkpoint::open(save_values(dir.path, {3, -4, 0, kInfinity, kNaN, 12}));
  FragmentReader reader(c);
  const TensorStats s = tensor_stats(reader, "w", "param");
  CHECK(s.elements == 6);
  CHECK(s.nonfinite == 2);
  CHECK(s.norm == 13.0);
  CHECK(s.min == -4.0);
  CHECK(s.max == 12.0);
  CHECK(s.mean == 11.0 / 4.0);
  CHECK(tensor_stats(reader, "w", "exp_avg_sq").norm == 52.0);
  CHECK(first_elements(reader, "w", "exp_avg", 2) == std::vector<float>{6, -8});
  CHECK(first_elements(reader, "w", "param", 100).size() == 6);
  const std::vector<StoredFragment> fragments = reader.index().fragments(reader.parameter("w"), "param");
  REQUIRE(fragments.size() == 1);
  CHECK(rank_file_name(fragments[0].rank) == "rank-00000.h5");
  CHECK(dataset_name("w", "param", fragments[0].number) == "w/param/0");
  CHECK(fragments[0].box.count == Shape{2, 3});
}

TEST_CASE("rows longer than a block are inspected in parts") {
  const MemoryFolder dir;
  std::vector<float> values(2 * (kBlockElements + 5), 0.0f);
  const size_t width = values.size() / 2;
  values[0] = -1;
  values[width - 1] = 2;
  values[width] = 4;
  values.back() = 10;
  const Checkpoint c = Checkpoint::open(save_values(dir.path, values));
  verify_tensors(c);
  FragmentReader reader(c);
  const TensorStats s = tensor_stats(reader, "w", "param");
  CHECK(s.elements == static_cast<int64_t>(values.size()));
  CHECK(s.norm == 11.0);
  CHECK(s.min == -1.0);
  CHECK(s.max == 10.0);
  CHECK(first_elements(reader, "w", "param", 2) == std::vector<float>{-1, 0});
  values.back() = 11;
  const MemoryFolder other;
  const CheckpointDifference d = compare(c, Checkpoint::open(save_values(other.path, values)));
  REQUIRE(d.tensors.size() == 3);
  CHECK(d.tensors[0].differing == 1);
  CHECK(d.tensors[0].max_abs == 1.0);
}

TEST_CASE("equal states compare as identical, whatever else differs") {
  const MemoryFolder dir;
  State s(small_table());
  const Checkpoint a = Checkpoint::open(save(dir.path / "a", s, 1, 1));
  TrainState other = some_state(1);
  other.extra["elapsed_s"] = 7;
  other.config_yaml += "# moved\n";
  const Checkpoint b = Checkpoint::open(save_checkpoint(dir.path / "b", s.store, *s.ops, other, {}));
  const CheckpointDifference d = compare(a, b);
  CHECK(d.identical());
  CHECK(d.compared == 3 * static_cast<int64_t>(s.table.size()));
  CHECK(d.notes == std::vector<std::string>{"extra.elapsed_s: null and 7", "config.yaml differs"});
}

TEST_CASE("differences are counted and measured") {
  const MemoryFolder dir;
  const Checkpoint a = Checkpoint::open(save_values(dir.path / "a", {1, 2, 3, 0}));
  const Checkpoint b = Checkpoint::open(save_values(dir.path / "b", {1, 2.5, 3, -0.0f}, 2));
  const CheckpointDifference d = compare(a, b);
  CHECK_FALSE(d.identical());
  REQUIRE(d.tensors.size() == 3);
  CHECK(d.tensors[0].differing == 2);  // -0 is not 0, bit by bit
  CHECK(d.tensors[0].max_abs == 0.5);
  CHECK(d.tensors[2].state == "exp_avg_sq");
  CHECK(d.tensors[2].max_abs == 2.0);
  CHECK(d.state.size() == 3);  // step, samples, loss
  const Checkpoint nan = Checkpoint::open(save_values(dir.path / "nan", {1, 2, 3, kNaN}));
  CHECK(std::isinf(compare(a, nan).tensors[0].max_abs));
}

TEST_CASE("tensors that only one checkpoint has are named") {
  const MemoryFolder dir;
  State s(small_table());
  const Checkpoint a = Checkpoint::open(save(dir.path / "a", s, 1, 1));
  const Checkpoint b = Checkpoint::open(save_values(dir.path / "b", {1, 2}));
  CHECK(compare(a, b).structure.size() == s.table.size() + 1);
  const Checkpoint c = Checkpoint::open(save_values(dir.path / "c", {1, 2, 3, 4}));
  CHECK(compare(b, c).structure == std::vector<std::string>{"w: [2,1] and [2,2]"});
}

TEST_CASE("elements whose file is missing are read as NaN, never as zeros") {
  const MemoryFolder dir;
  {
    h5::File index = h5::File::create(dir.path / "index.h5");
    const std::vector<h5::Mapping> mapping = {{{{0}, {3}}, "rank-00000.h5", "w/param/0"}};
    index.create_virtual("w/param", {5}, mapping);
    index.close();
  }
  const h5::File index = h5::File::open(dir.path / "index.h5");
  std::vector<float> values(5, 1.0f);
  index.dataset("w/param").read({{0}, {5}}, values.data(), {{5}, {0}});
  for (const float v : values) CHECK(std::isnan(v));
}

}  // namespace
}  // namespace fp::test
