// index.bin: its exact bytes, the contents that are refused, and its agreement with index.h5.
#include <cstring>
#include <initializer_list>

#include "checkpoint/fragment_index.h"
#include "checkpoint/fragment_table.h"
#include "checkpoint/index.h"
#include "checkpoint/inspect.h"
#include "checkpoint/verify_hdf5.h"
#include "fixture.h"

namespace fp::test {
namespace {

using std::filesystem::path;
using Numbers = std::vector<uint64_t>;

const std::string kFirstLine = "fptrain table 1\n";

// A tensor of shape [3, 4], whose rows two ranks hold, and one of shape [6], of which each holds half.
std::vector<CheckpointParam> two_parameters() {
  return {{"w", {3, 4}, {{"param", 1}, {"exp_avg", 2}}}, {"layer.norm", {6}, {{"param", 3}}}};
}

// The same as bytes of index.bin, following docs/checkpoint-format.md.
Numbers table_of_two() {
  const auto text = [](const char(&eight)[9]) {
    uint64_t number = 0;
    std::memcpy(&number, eight, sizeof number);
    return number;
  };
  Numbers all;
  const auto add = [&](std::initializer_list<uint64_t> numbers) { all.insert(all.end(), numbers); };
  add({2});                                    // parameters
  add({1, text("w\0\0\0\0\0\0\0"), 2, 3, 4});  // name, shape
  add({2});                                    // states
  add({0, 2});                                 // param: two fragments
  add({0, 0, 2048, 0, 0, 2, 4});               // rank, number, offset, start, shape
  add({1, 0, 2048, 2, 0, 1, 4});
  add({1, 1});  // exp_avg: one fragment
  add({1, 0, 4096, 0, 0, 3, 4});
  add({10, text("layer.no"), text("rm\0\0\0\0\0\0"), 1, 6});
  add({1});
  add({0, 2});
  add({0, 0, 512, 0, 3});
  add({1, 0, 512, 3, 3});
  return all;
}

std::string bytes_of(const Numbers& numbers) {
  return kFirstLine + std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(uint64_t));
}

TEST_CASE("index.bin has the documented bytes") {
  const std::vector<CheckpointParam> parameters = two_parameters();
  const std::vector<IndexedParam> indexed = {
      {parameters[0],
       {{{0, 0, {{0, 0}, {2, 4}}, 2048}, {1, 0, {{2, 0}, {1, 4}}, 2048}}, {{1, 0, {{0, 0}, {3, 4}}, 4096}}}},
      {parameters[1], {{{0, 0, {{0}, {3}}, 512}, {1, 0, {{3}, {3}}, 512}}}}};
  const std::string content = serialize_fragments(indexed);
  CHECK(content == bytes_of(table_of_two()));
  const FragmentTable table(content, parameters, "here");
  for (const IndexedParam& p : indexed)
    for (size_t i = 0; i < p.fragments.size(); ++i)
      CHECK(rows_of(table.fragments(p.param, p.param.states[i].name)) == rows_of(p.fragments[i]));
  CHECK(contains(data_error([&] { table.fragments(parameters[1], "exp_avg"); }), "has no exp_avg of layer.norm"));
}

TEST_CASE("an index.bin that does not match the manifest's parameters exactly is refused") {
  const std::vector<CheckpointParam> parameters = two_parameters();
  const Numbers right = table_of_two();
  const auto reason = [&](const std::string& content) {
    return data_error([&] { FragmentTable(content, parameters, "here"); });
  };
  CHECK(contains(reason(""), "here: is not a table of fragments"));
  CHECK(contains(reason("fptrain table 2\n" + bytes_of(right).substr(16)), "is not a table of fragments"));
  CHECK(contains(reason(bytes_of(right) + "x"), "is not a table of fragments"));
  for (size_t numbers = 0; numbers < right.size(); ++numbers)
    CHECK_FALSE(reason(bytes_of(Numbers(right.begin(), right.begin() + static_cast<long>(numbers)))).empty());
  Numbers more = right;
  more.push_back(0);
  CHECK(contains(reason(bytes_of(more)), "8 bytes are left over"));

  const auto altered = [&](size_t at, uint64_t value) {
    Numbers numbers = right;
    numbers.at(at) = value;
    return reason(bytes_of(numbers));
  };
  CHECK(contains(altered(0, 3), "at byte 16: parameters: 3, but 2 in the manifest"));
  CHECK(contains(altered(1, 2), "name differs from the manifest's, w"));
  CHECK(contains(altered(2, 'v'), "name differs from the manifest's, w"));
  CHECK(contains(altered(2, 'w' | uint64_t{1} << 63), "name differs from the manifest's, w"));
  CHECK(contains(altered(3, 1), "w: dimensions: 1, but 2 in the manifest"));
  CHECK(contains(altered(4, 4), "w: shape: 4, but 3 in the manifest"));
  CHECK(contains(altered(6, 3), "w: states: 3, but 2 in the manifest"));
  CHECK(contains(altered(7, 2), "w: number of the state: 2, but 0 in the manifest"));
  for (const uint64_t count : {uint64_t{0}, uint64_t{100}, uint64_t{1} << 61, ~uint64_t{0}})
    CHECK(contains(altered(8, count), fmt::format("at byte {}: w: {} fragments", 16 + 8 * 8, count)));
}

TEST_CASE("out-of-range numbers of a fragment are refused") {
  const std::vector<CheckpointParam> parameters = two_parameters();
  for (const auto& [at, value] : std::vector<std::pair<size_t, uint64_t>>{{9, uint64_t{1} << 31},
                                                                          {10, ~uint64_t{0}},
                                                                          {11, uint64_t{1} << 63},
                                                                          {12, ~uint64_t{0}},
                                                                          {15, ~uint64_t{0}}}) {
    Numbers numbers = table_of_two();
    numbers.at(at) = value;
    const FragmentTable table(bytes_of(numbers), parameters, "here");
    CHECK(contains(data_error([&] { table.fragments(parameters[0], "param"); }),
                   fmt::format("here: w/param: number {} of row 0 is {}; legal: at most", at - 9, value)));
    CHECK_NOTHROW(table.fragments(parameters[1], "param"));
  }
}

TEST_CASE("fragments that do not make up their tensor are refused") {
  using Fragments = std::vector<StoredFragment>;
  const Shape shape{4, 6};
  const auto fault = [&](const Fragments& fragments) { return tiling_error(shape, fragments); };
  const auto box = [](const Shape& start, const Shape& count) { return StoredFragment{0, 0, {start, count}, 0}; };
  CHECK(fault({box({0, 0}, {4, 6})}).empty());
  CHECK(fault({box({0, 0}, {4, 2}), box({2, 2}, {2, 4}), box({0, 2}, {2, 4})}).empty());
  CHECK(contains(fault({}), "0 of its 24 elements"));
  CHECK(contains(fault({box({0, 0}, {3, 6})}), "18 of its 24 elements"));
  CHECK(contains(fault({box({0, 0}, {4, 6}), box({3, 5}, {1, 1})}), "hold overlapping parts"));
  CHECK(contains(fault({box({0, 0}, {3, 6}), box({2, 0}, {2, 6})}), "hold overlapping parts"));
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const StoredFragment& wrong :
       {box({0, 1}, {4, 6}), box({1, 0}, {4, 6}), box({0, 0}, {4, 7}), box({-1, 0}, {4, 6}), box({0, 0}, {0, 6}),
        box({0, 0}, {-4, 6}), box({kMost, 0}, {1, 6}), box({0, kMost}, {4, kMost}), box({0}, {4}),
        box({0, 0, 0}, {4, 6, 1})})
    CHECK(contains(fault({wrong}), "which is not a legal part of a tensor of shape [4,6]"));
  // Dimensions beyond the second are never split.
  CHECK(contains(tiling_error({2, 2, 2}, {box({0, 0, 0}, {2, 2, 1}), box({0, 0, 1}, {2, 2, 1})}),
                 "which is not a legal part"));
}

// A checkpoint whose index.bin `alter` has changed.
Checkpoint with_altered_table(const path& folder, const std::function<void(StoredFragment&)>& alter) {
  std::vector<IndexedParam> all;
  {
    const Checkpoint checkpoint = Checkpoint::open(folder);
    const FragmentIndex index(checkpoint);
    for (const CheckpointParam& p : checkpoint.manifest().parameters) {
      all.push_back({p, {}});
      for (const StoredState& state : p.states) {
        all.back().fragments.emplace_back();
        for (StoredFragment f : index.fragments(p, state.name)) {
          alter(f);
          all.back().fragments.back().push_back(f);
        }
      }
    }
  }
  write_text(folder / "index.bin", serialize_fragments(all));
  seal(folder, "index.bin");
  return Checkpoint::open(folder);
}

std::string refusal_of_altered_table(const std::function<void(StoredFragment&)>& alter) {
  const MemoryFolder dir;
  const Checkpoint checkpoint = with_altered_table(test::save_ranks(dir.path, 1, 2, 2, 1), alter);
  State state(small_table());
  const std::string of_load = data_error([&] { checkpoint.load(state.store, *state.ops); });
  CHECK(data_error([&] { verify_tensors(checkpoint); }) == of_load);
  return of_load;
}

TEST_CASE("index.bin may only point inside files of the checkpoint") {
  CHECK(contains(refusal_of_altered_table([](StoredFragment& f) { f.rank += 7; }),
                 "in rank-00007.h5, which is not a file of the checkpoint"));
  CHECK(contains(refusal_of_altered_table([](StoredFragment& f) { f.offset += 1 << 20; }), "the index places"));
  CHECK(contains(refusal_of_altered_table([](StoredFragment& f) { f.offset = std::numeric_limits<int64_t>::max(); }),
                 "at byte 9223372036854775807 of rank-00000.h5"));
  CHECK(contains(refusal_of_altered_table([](StoredFragment& f) { f.box.start[0] = 0; }), "are not the whole tensor"));
}

TEST_CASE("an index.bin that points to other bytes is detected") {
  const MemoryFolder dir;
  const Checkpoint checkpoint = with_altered_table(test::save_ranks(dir.path, 1, 2, 2, 1),
                                                   [](StoredFragment& f) { f.offset += f.offset > 8 ? -8 : 8; });
  CHECK(contains(data_error([&] { verify_tensors(checkpoint); }),
                 "index.bin leads to other tensors than were saved:\n  param of "));
  State state(small_table());
  CHECK(contains(data_error([&] { checkpoint.load(state.store, *state.ops); }), "differ from the saved ones"));
}

TEST_CASE("an index.bin that changed after the checkpoint was verified is detected") {
  const MemoryFolder dir;
  const Checkpoint checkpoint = Checkpoint::open(test::save_ranks(dir.path, 1, 2, 2, 1));
  std::string content = read_file(checkpoint.folder() / "index.bin");
  content[content.size() / 2] ^= 1;
  write_text(checkpoint.folder() / "index.bin", content);
  CHECK(contains(data_error([&] { verify_tensors(checkpoint); }), "index.bin: content differs from what was saved"));
}

TEST_CASE("index.bin and index.h5 of a save agree") {
  const MemoryFolder dir;
  for (const auto& [tp, shards] : {std::pair(1, 1), std::pair(2, 3), std::pair(8, 1)}) {
    const Checkpoint checkpoint = Checkpoint::open(test::save_ranks(dir.path, tp * 10 + shards, tp, shards, 1));
    const FragmentIndex table(checkpoint);
    const h5::File index = h5::File::open(checkpoint.folder() / "index.h5");
    for (const CheckpointParam& p : checkpoint.manifest().parameters)
      for (const std::string state : {"param", "exp_avg", "exp_avg_sq"})
        CHECK(rows_of(table.fragments(p, state)) == rows_of(read_fragments(index, p, state)));
    CHECK_NOTHROW(verify_with_hdf5(checkpoint));
  }
}

TEST_CASE("shapes larger than the files are refused before memory is allocated") {
  const MemoryFolder dir;
  const path folder = test::save_ranks(dir.path, 1, 1, 1, 1);
  CheckpointManifest m = read_checkpoint_manifest(folder);
  m.parameters[3].shape = {int64_t{1} << 30, int64_t{1} << 30};
  write_text(folder / "manifest.json", serialize(m));
  CHECK(contains(data_error([&] { verify_tensors(Checkpoint::open(folder)); }),
                 "of model.layers.0.self_attn.qkv_proj.bias, of shape [1073741824,1073741824]"));
}

}  // namespace
}  // namespace fp::test
