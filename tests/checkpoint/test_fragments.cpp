// Tensors read straight out of rank files.
#include <random>

#include "checkpoint/fragment_reader.h"
#include "checkpoint/inspect.h"
#include "fixture.h"

namespace fp::test {
namespace {

using std::filesystem::path;

constexpr float kUntouched = 7;

// A box of a tensor of one or two dimensions, and a place for it in larger memory.
struct Request {
  h5::Box box;
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

// Elements of the memory that are neither those of the box in their places nor untouched.
int64_t wrong(const Param& p, StateKind kind, const Request& r, const std::vector<float>& memory) {
  const bool vector = p.shape.rank() == 1;
  const auto at = [&](const Shape& s, int d) { return vector && d == 1 ? int64_t{0} : s[d]; };
  const int64_t width = vector ? 1 : r.window.dims[1];
  const KnownValues values(p.name, kind, 1);
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

TEST_CASE("any box of any tensor is read into its place and nowhere else") {
  const TempDir dir;
  const int tp = GENERATE(1, 4, 8), shards = GENERATE(1, 5);
  const Checkpoint checkpoint = Checkpoint::open(save_ranks(dir.path, 1, tp, shards, 1));
  FragmentReader reader(checkpoint);
  std::mt19937 random(7);
  for (const Param& p : small_table())
    for (int i = 0; i < 40; ++i) {
      const StateKind kind = kStateKinds[static_cast<size_t>(i) % 3];
      const Request r = some_request(p.shape, random);
      std::vector<float> memory(static_cast<size_t>(r.window.dims.elements()), kUntouched);
      reader.read(p.name, kind, r.box, memory.data(), r.window);
      INFO(p.name << " " << r.box.start.str() << " " << r.box.count.str());
      CHECK(wrong(p, kind, r, memory) == 0);
    }
}

TEST_CASE("wide and tall tensors cut along their columns are read in blocks") {
  const TempDir dir;
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

TEST_CASE("more rank files than are held open") {
  const TempDir dir;
  const Checkpoint checkpoint = Checkpoint::open(save_ranks(dir.path, 1, 1, 150, 1));
  State state(small_table());
  checkpoint.load(state.store, *state.ops);
  CHECK(state.wrong(1) == 0);
}

TEST_CASE("what has become of a rank file since it was verified is said") {
  const TempDir dir;
  const Checkpoint checkpoint = Checkpoint::open(save_ranks(dir.path, 1, 2, 2, 1));
  State state(small_table());
  std::filesystem::resize_file(checkpoint.folder() / "rank-00002.h5", 3000);
  CHECK(contains(data_error([&] { checkpoint.load(state.store, *state.ops); }), "rank-00002.h5"));
  std::filesystem::remove(checkpoint.folder() / "rank-00002.h5");
  CHECK(contains(data_error([&] { checkpoint.load(state.store, *state.ops); }), "rank-00002.h5"));
}

// Writes the index anew, with the fragments that `alter` leaves, as tables or as HDF5's mappings alone.
void write_anew(const Checkpoint& c, bool tables, const std::function<void(StoredFragment&)>& alter) {
  const path file = c.folder() / "index.h5";
  std::vector<IndexedParam> all;
  {
    const h5::File index = h5::File::open(file);
    for (const CheckpointParam& p : c.manifest().parameters) {
      all.push_back({p, {}});
      for (const StateKind kind : kStateKinds) {
        all.back().fragments[kind] = read_fragments(index, p, kind);
        for (StoredFragment& f : all.back().fragments[kind]) alter(f);
      }
    }
  }
  std::filesystem::remove(file);
  if (tables) {
    write_index(file, all);
    return;
  }
  h5::File index = h5::File::create(file);
  for (const IndexedParam& p : all)
    for (const auto& [kind, fragments] : p.fragments) {
      std::vector<h5::Mapping> mappings;
      for (const StoredFragment& f : fragments)
        mappings.push_back({f.box, rank_file_name(f.rank), dataset_name(p.param.name, kind, f.number)});
      index.create_virtual(dataset_name(p.param.name, kind), p.param.shape, mappings);
    }
  index.close();
}

TEST_CASE("an index without tables is read by its mappings") {
  const TempDir dir;
  const Checkpoint checkpoint = Checkpoint::open(save_ranks(dir.path, 1, 2, 2, 1));
  write_anew(checkpoint, false, [](StoredFragment&) {});
  State state(small_table());
  checkpoint.load(state.store, *state.ops);
  CHECK(state.wrong(1) == 0);
}

TEST_CASE("tables that lead to other bytes than the mappings are found out") {
  const TempDir dir;
  const Checkpoint checkpoint = Checkpoint::open(save_ranks(dir.path, 1, 2, 2, 1));
  write_anew(checkpoint, true, [](StoredFragment& f) { f.offset += f.offset > 8 ? -8 : 8; });
  CHECK(contains(data_error([&] { verify_tensors(checkpoint); }),
                 "the tables of the index do not lead to what was saved"));
  State state(small_table());
  CHECK(contains(data_error([&] { checkpoint.load(state.store, *state.ops); }), "not what was saved"));
}

TEST_CASE("an index with a hole is refused") {
  const TempDir dir;
  const Checkpoint checkpoint = Checkpoint::open(save_ranks(dir.path, 1, 1, 1, 1));
  std::filesystem::remove(checkpoint.folder() / "index.h5");
  {
    h5::File index = h5::File::create(checkpoint.folder() / "index.h5");
    const std::vector<h5::Mapping> mapping = {
        {{{0, 0}, {30, 16}}, "rank-00000.h5", "model.embed_tokens.weight/param/0"}};
    index.create_virtual("model.embed_tokens.weight/param", {37, 16}, mapping);
    index.close();
  }
  FragmentReader reader(checkpoint);
  std::vector<float> values(37 * 16);
  const std::string message = data_error([&] {
    reader.read("model.embed_tokens.weight", StateKind::param, {{0, 0}, {37, 16}}, values.data(), {{37, 16}, {0, 0}});
  });
  CHECK(contains(message, "480 of 592 elements of model.embed_tokens.weight/param"));
}

}  // namespace
}  // namespace fp::test
