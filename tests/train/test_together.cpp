// Loads that all ranks do together, here those of one: what is damaged, and what only failed.
#include "checkpoint/fixture.h"
#include "train/together.h"

namespace fp::test {
namespace {

struct TogetherRig {
  TempDir dir;
  State state{small_table()};
  World world{0, 1};
  std::shared_ptr<Group> group = world.group("world", {0});
  std::filesystem::path folder = save(dir.path, state, 1, 7);
  Checkpoint checkpoint = Checkpoint::open(folder);
  State loaded{small_table()};
};

TEST_CASE("a load of a good checkpoint finds no damage") {
  TogetherRig rig;
  CHECK(load_or_find_damage(rig.checkpoint, rig.loaded.store, *rig.loaded.ops, *rig.group).empty());
  CHECK(rig.loaded.wrong(7) == 0);
}

TEST_CASE("a load of a damaged checkpoint names the file") {
  TogetherRig rig;
  std::string content = read_file(rig.folder / "rank-00000.h5");
  content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 0x10);
  put_file(rig.folder / "rank-00000.h5", content);
  const std::string damage = load_or_find_damage(rig.checkpoint, rig.loaded.store, *rig.loaded.ops, *rig.group);
  CHECK(contains(damage, "rank-00000.h5: content differs from what was saved"));
}

TEST_CASE("a load that fails over a good checkpoint is tried once more, and then ends the run") {
  TogetherRig rig;
  ParamTable table = small_table();
  table.add("one.more", {3}, Partition::replicated(), {});
  State other(std::move(table));
  std::string error;
  const std::string text = logged(rig.dir.path / "log.txt", [&] {
    error = data_error([&] { load_or_find_damage(rig.checkpoint, other.store, *other.ops, *rig.group); });
  });
  CHECK(contains(error, "one.more [3] is not in the checkpoint"));
  CHECK(contains(text, "its files are what was saved, as rank 0 sees them: loading once more"));
}

}  // namespace
}  // namespace fp::test
