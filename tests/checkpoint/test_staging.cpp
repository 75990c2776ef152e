// The staging area, however small, passes on exactly what a synchronous save would have written.
#include <thread>

#include "checkpoint/rank_file.h"
#include "checkpoint/staging.h"
#include "fixture.h"

namespace fp::test {
namespace {

size_t largest_block(const ParamTable& table) {
  size_t bytes = 0;
  for_each_block(
      table, table.shard(), [](ParamId, int) { return true; },
      [&](const StateBlock& b) {
        bytes = std::max(bytes, static_cast<size_t>(b.fragment.count.elements()) * size_of(b.dtype));
      });
  return bytes;
}

// Returns the number of wrong elements in a checkpoint that was written through the staging area.
int64_t wrong_through(Staging& staging, const std::filesystem::path& folder, State& s, uint64_t seed) {
  const auto hidden = begin_save(folder, 1);
  staging.begin();
  RankFile written;
  std::thread writer([&] { written = write_rank_file(hidden, s.table, *staging.blocks(), 0); });
  staging.fill(s.store, *s.ops);
  writer.join();
  State loaded(s.table);
  load_checkpoint(finish_save(hidden, s.table, {written}, some_state(1), {}), loaded.store, *loaded.ops);
  return loaded.wrong(seed);
}

TEST_CASE("a staging area of any size gives the same file") {
  const MemoryFolder dir;
  State s(small_table());
  const size_t largest = largest_block(s.table), all = Staging::bytes_for(s.table, 0);
  CHECK(all == static_cast<size_t>(s.table.logical_parameters()) * 3 * sizeof(float));
  CHECK(Staging::bytes_for(s.table, 1) == largest);
  CHECK(Staging::bytes_for(s.table, all + 1) == all);
  for (const size_t bytes : {largest, largest + 4, 2 * largest - 4, 3 * largest + 12, all - 4, all, 2 * all}) {
    CAPTURE(bytes);
    Staging staging(bytes);
    for (const uint64_t seed : {3, 4}) {
      s.fill(seed);
      CHECK(wrong_through(staging, dir.path / std::to_string(bytes), s, seed) == 0);
    }
  }
}

TEST_CASE("a staging area takes two bytes for an element of a state in bf16") {
  const MemoryFolder dir;
  ParamTable table = small_table();
  table.add("model.norm.weight", {5}, Partition::replicated(), {});
  table.add("lm_head.weight", {3, 5}, Partition::replicated(), {});
  const size_t wide = Staging::bytes_for(table, 0);
  std::vector<StateSlot> which = slots();
  which.push_back({.name = kNarrowState, .dtype = DType::bf16});
  table.set_slots(which);
  State s(table);
  const size_t all = Staging::bytes_for(table, 0), largest = largest_block(table);
  CHECK(all - wide >= static_cast<size_t>(table.logical_parameters()) * sizeof(bf16));
  CHECK(all - wide <
        static_cast<size_t>(table.logical_parameters() + 2 * static_cast<int64_t>(table.size())) * sizeof(bf16));
  for (const size_t bytes : {largest, 2 * largest - 4, all}) {
    CAPTURE(bytes);
    Staging staging(bytes);
    s.fill(3);
    CHECK(wrong_through(staging, dir.path / std::to_string(bytes), s, 3) == 0);
  }
}

TEST_CASE("if the whole state fits, it may change before anything is written") {
  const MemoryFolder dir;
  State s(small_table()), loaded(small_table());
  s.fill(1);
  Staging staging(Staging::bytes_for(s.table, 0));
  staging.begin();
  staging.fill(s.store, *s.ops);
  s.fill(2);
  const auto hidden = begin_save(dir.path, 7);
  const RankFile file = write_rank_file(hidden, s.table, *staging.blocks(), 0);
  const auto path = finish_save(hidden, s.table, {file}, some_state(7), {});
  load_checkpoint(path, loaded.store, *loaded.ops);
  CHECK(loaded.wrong(1) == 0);
}

TEST_CASE("neither the writer nor the reader of a staging area blocks after give_up") {
  const MemoryFolder dir;
  State s(small_table());
  s.fill(1);
  Staging staging(largest_block(s.table));
  staging.begin();
  std::thread writer([&] {
    try {
      write_rank_file(dir.path / "no such folder", s.table, *staging.blocks(), 0);
    } catch (const DataError&) {
      staging.give_up();
    }
  });
  staging.fill(s.store, *s.ops);
  writer.join();

  staging.begin();
  std::string error;
  std::thread reader([&] {
    try {
      write_rank_file(dir.path, s.table, *staging.blocks(), 0);
    } catch (const DataError& e) {
      error = e.what();
    }
  });
  staging.give_up();
  reader.join();
  CHECK(error == "the save was given up");
}

}  // namespace
}  // namespace fp::test
