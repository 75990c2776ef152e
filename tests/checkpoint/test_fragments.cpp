// Reading tensors directly from rank files.
#include <random>

#include "checkpoint/fragment_reader.h"
#include "fixture.h"

namespace fp::test {
namespace {

using std::filesystem::path;

constexpr float kUntouched = 7;

// A box of a tensor of one or two dimensions, and a window for it in larger memory.
struct Request {
  Box box;
  h5::Window window;
};

Request some_request(const Shape& shape, std::mt19937& random) {
  const auto from = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  Request r;
  for (int d = 0; d < shape.rank(); ++d) {
    const int64_t start = from(0, shape[d] - 1), count = from(1, shape[d] - start), before = from(0, 2);
    r.box.start.push_back(start);
    r.box.count.push_back(count);
    r.window.start.push_back(before);
    r.window.dims.push_back(before + count + from(0, 2));
  }
  return r;
}

// Number of wrong elements of the memory: inside the window not those of the box, outside it not untouched.
int64_t wrong(const Param& p, const std::string& state, const Request& r, const std::vector<float>& memory) {
  const bool vector = p.shape.rank() == 1;
  const auto at = [&](const Shape& s, int d) { return vector && d == 1 ? int64_t{0} : s[d]; };
  const int64_t width = vector ? 1 : r.window.dims[1];
  const KnownValues values(p.name, state, 1);
  std::vector<float> expected(memory.size(), kUntouched);
  for (int64_t y = 0; y < r.box.count[0]; ++y)
    for (int64_t x = 0; x < (vector ? 1 : r.box.count[1]); ++x)
      expected[static_cast<size_t>((r.window.start[0] + y) * width + at(r.window.start, 1) + x)] =
          values[(r.box.start[0] + y) * (vector ? 1 : p.shape[1]) + at(r.box.start, 1) + x];
  int64_t n = 0;
  for (size_t i = 0; i < memory.size(); ++i)
    n += std::bit_cast<uint32_t>(memory[i]) != std::bit_cast<uint32_t>(expected[i]);
  return n;
}

TEST_CASE("reading any box of any tensor writes only its window") {
  const MemoryFolder dir;
  const int tp = GENERATE(1, 4, 8), shards = GENERATE(1, 5);
  const Checkpoint checkpoint = Checkpoint::open(save_ranks(dir.path, 1, tp, shards, 1));
  FragmentReader reader(checkpoint);
  std::mt19937 random(7);
  for (const Param& p : small_table())
    for (int i = 0; i < 40; ++i) {
      const std::string& state = slots()[static_cast<size_t>(i) % slots().size()].name;
      const Request r = some_request(p.shape, random);
      std::vector<float> memory(static_cast<size_t>(r.window.dims.elements()), kUntouched);
      reader.read(p.name, state, r.box, memory.data(), r.window);
      INFO(p.name << " " << r.box.start.str() << " " << r.box.count.str());
      CHECK(wrong(p, state, r, memory) == 0);
    }
}

TEST_CASE("wide and tall tensors split along columns are read in blocks") {
  const MemoryFolder dir;
  const auto table = [](int tp, int rank) {
    ParamTable t(tp, rank);
    t.add("wide", {3, 700001}, Partition::cut(1, {{700001, 700001, 0}}), {});
    t.add("tall", {300007, 6}, Partition::cut(1, {{6, 6, 0}}), {});
    return t;
  };
  const path hidden = begin_save(dir.path, 1);
  std::vector<RankFile> files;
  for (int rank = 0; rank < 6; ++rank) {
    State state(table(6, rank));
    state.fill(1);
    files.push_back(write_rank_file(hidden, state.store, *state.ops, rank));
  }
  const Checkpoint checkpoint = Checkpoint::open(finish_save(hidden, table(1, 0), files, some_state(1), {}));
  for (const int tp : {1, 2, 5}) {  // all columns of a fragment are wanted, or some
    State state(table(tp, tp - 1));
    checkpoint.load(state.store, *state.ops);
    CHECK(state.wrong(1) == 0);
  }
}

TEST_CASE("a checkpoint with more rank files than are kept open can be read") {
  const MemoryFolder dir;
  const Checkpoint checkpoint = Checkpoint::open(save_ranks(dir.path, 1, 1, 150, 1));
  State state(small_table());
  checkpoint.load(state.store, *state.ops);
  CHECK(state.wrong(1) == 0);
}

TEST_CASE("the error names what happened to a rank file after it was verified") {
  const MemoryFolder dir;
  const Checkpoint checkpoint = Checkpoint::open(save_ranks(dir.path, 1, 2, 2, 1));
  State state(small_table());
  std::filesystem::resize_file(checkpoint.folder() / "rank-00002.h5", 3000);
  CHECK(contains(data_error([&] { checkpoint.load(state.store, *state.ops); }), "rank-00002.h5"));
  std::filesystem::remove(checkpoint.folder() / "rank-00002.h5");
  CHECK(contains(data_error([&] { checkpoint.load(state.store, *state.ops); }), "rank-00002.h5"));
}

}  // namespace
}  // namespace fp::test
