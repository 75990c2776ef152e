// Fragments of several ranks form one logical tensor, whatever the number of ranks that wrote or read it.
#include "fixture.h"

namespace fp::test {
namespace {

using std::filesystem::path;

path save_ranks(const path& dir, int tp, uint64_t seed) { return test::save_ranks(dir, tp, tp, 1, seed); }

TEST_CASE("a checkpoint saved by any number of ranks is loaded by any other number") {
  const MemoryFolder dir;
  const int writers = GENERATE(1, 2, 4, 8), readers = GENERATE(1, 2, 4, 8);
  INFO(writers << " ranks wrote, " << readers << " read");
  const Checkpoint checkpoint = Checkpoint::open(save_ranks(dir.path, writers, 1));
  CHECK(checkpoint.manifest().mesh.tp() == writers);
  Fingerprints sums(small_table().size());
  for (int rank = 0; rank < readers; ++rank) {
    State state(small_table(readers, rank));
    checkpoint.load(state.store, *state.ops);
    CHECK(state.wrong(1) == 0);
    const Fingerprints prints = fingerprints(state.store, *state.ops);
    for (size_t i = 0; i < sums.size(); ++i)
      for (const auto& [name, print] : prints[i]) sums[i][name] += print;
  }
  CHECK_NOTHROW(check_fingerprints(checkpoint, small_table(), sums));
  sums[3]["param"] += 1;
  CHECK_THROWS_AS(check_fingerprints(checkpoint, small_table(), sums), DataError);
}

TEST_CASE("the index has logical shapes without padding, and each rank writes only what it owns") {
  const MemoryFolder dir;
  const path folder = save_ranks(dir.path, 4, 1);
  const h5::File index = h5::File::open(folder / "index.h5");
  CHECK(index.dataset("model.embed_tokens.weight/param").shape() == Shape{37, 16});
  CHECK(index.dataset("model.layers.0.self_attn.qkv_proj.weight/exp_avg").shape() == Shape{48, 16});

  const auto fragments = [&](int rank, const std::string& name) {
    const h5::File file = h5::File::open(folder / fmt::format("rank-{:05d}.h5", rank));
    return count_fragments(file, name + "/param");
  };
  const std::string layer = "model.layers.1.";
  for (int rank = 0; rank < 4; ++rank) {
    INFO(rank);
    CHECK(fragments(rank, layer + "input_layernorm.weight") == (rank == 0 ? 1 : 0));
    // kv heads: two for four ranks, so ranks 1 and 3 hold copies and write Q alone.
    CHECK(fragments(rank, layer + "self_attn.qkv_proj.weight") == (rank % 2 == 0 ? 3 : 1));
    CHECK(fragments(rank, layer + "self_attn.o_proj.weight") == 1);
    // 48 padded rows for four ranks, 37 real: the last rank holds one of them.
    CHECK(fragments(rank, "model.embed_tokens.weight") == 1);
  }
  const h5::File last = h5::File::open(folder / "rank-00003.h5");
  CHECK(last.dataset("model.embed_tokens.weight/param/0").shape() == Shape{1, 16});
  CHECK(last.attribute("model.embed_tokens.weight/param/0", "start") == std::vector<uint64_t>{36, 0});
}

TEST_CASE("a single rank stores each tensor contiguously") {
  const MemoryFolder dir;
  State state(small_table());
  const h5::File file = h5::File::open(save(dir.path, state, 1, 1) / "rank-00000.h5");
  for (const Param& p : state.table) CHECK(count_fragments(file, p.name + "/param") == 1);
}

TEST_CASE("fingerprints do not depend on how a tensor is divided") {
  const MemoryFolder dir;
  const CheckpointManifest one = Checkpoint::open(save_ranks(dir.path, 1, 1)).manifest();
  const CheckpointManifest four = Checkpoint::open(save_ranks(dir.path, 4, 1)).manifest();
  const CheckpointManifest other = Checkpoint::open(save_ranks(dir.path, 2, 2)).manifest();
  CHECK(one.parameters == four.parameters);
  for (size_t i = 0; i < one.parameters.size(); ++i)
    for (const std::string state : {"param", "exp_avg", "exp_avg_sq"})
      CHECK(one.parameters[i].find(state)->fingerprint != other.parameters[i].find(state)->fingerprint);
}

TEST_CASE("a fingerprint is the documented sum") {
  const std::vector<float> values = {1.0f, -0.0f, 2.5f};
  uint64_t sum = 0;
  for (uint64_t i = 0; i < 3; ++i) {
    uint64_t z = i * 0x9E3779B97F4A7C15u + std::bit_cast<uint32_t>(values[i]) + 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    sum += z ^ (z >> 31);
  }
  CHECK(fingerprint({3}, {{0}, {3}}, values.data(), {{3}, {0}}) == sum);
  const std::vector<float> swapped = {-0.0f, 1.0f, 2.5f};
  CHECK(fingerprint({3}, {{0}, {3}}, swapped.data(), {{3}, {0}}) != sum);
}

TEST_CASE("a missing or duplicate fragment stops the save") {
  const MemoryFolder dir;
  State first(small_table(2, 0)), whole(small_table(1, 0));
  {
    const path hidden = begin_save(dir.path, 1);
    const RankFile file = write_rank_file(hidden, first.store, *first.ops, 0);
    CHECK_THROWS_AS(finish_save(hidden, first.table, {file}, some_state(1), {}), InternalError);
  }
  const path hidden = begin_save(dir.path, 1);
  const std::vector<RankFile> files = {write_rank_file(hidden, first.store, *first.ops, 0),
                                       write_rank_file(hidden, whole.store, *whole.ops, 1)};
  CHECK_THROWS_AS(finish_save(hidden, whole.table, files, some_state(1), {}), InternalError);
  CHECK(checkpoints_in(dir.path).empty());
}

}  // namespace
}  // namespace fp::test
