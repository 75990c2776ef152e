// Loads that all ranks do together, here those of one: what is damaged, and what only failed.
#include "base/retry.h"
#include "checkpoint/fixture.h"
#include "comm/backends.h"
#include "train/resume.h"
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
  CHECK_FALSE(load_or_find_damage(rig.checkpoint, rig.loaded.store, *rig.loaded.ops, *rig.group));
  CHECK(rig.loaded.wrong(7) == 0);
}

TEST_CASE("a load of a damaged checkpoint names the file") {
  TogetherRig rig;
  std::string content = read_file(rig.folder / "rank-00000.h5");
  content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 0x10);
  put_file(rig.folder / "rank-00000.h5", content);
  const auto damage = load_or_find_damage(rig.checkpoint, rig.loaded.store, *rig.loaded.ops, *rig.group);
  REQUIRE(damage);
  CHECK_FALSE(damage->files_match);
  CHECK(contains(damage->text, "rank-00000.h5: content differs from what was saved"));
}

TEST_CASE("a checkpoint whose files are right and whose tensors are not is damaged after the second load") {
  TogetherRig rig;
  alter_sealed(rig.folder);
  const Checkpoint checkpoint = Checkpoint::open(rig.folder);
  std::optional<LoadDamage> damage;
  const std::string text = logged(rig.dir.path / "log.txt", [&] {
    damage = load_or_find_damage(checkpoint, rig.loaded.store, *rig.loaded.ops, *rig.group);
  });
  REQUIRE(damage);
  CHECK(damage->files_match);
  CHECK(contains(damage->text, "these tensors are not what was saved"));
  CHECK(contains(text, "its files are what was saved, as rank 0 sees them: loading once more"));
}

TEST_CASE("what one rank cannot read is no damage, but an error of all ranks") {
  const TempDir dir;
  State whole(small_table());
  const std::filesystem::path folder = save(dir.path, whole, 1, 7);
  set_retry_wait([](std::chrono::milliseconds) {});
  std::atomic<int> failed = 0;
  run_thread_ranks(3, [&](World& world) {
    const auto group = world.group("world", {0, 1, 2});
    const Checkpoint checkpoint = Checkpoint::open(folder);
    group->barrier();
    if (world.rank() == 0) {
      std::filesystem::remove(folder / "rank-00000.h5");
      std::filesystem::create_symlink("/proc/self/mem", folder / "rank-00000.h5");
    }
    group->barrier();
    State state(small_table(3, world.rank()));
    try {
      load_or_find_damage(checkpoint, state.store, *state.ops, *group);
    } catch (const InfrastructureError& e) {
      failed += contains(e.what(), "rank 0 on ") && contains(e.what(), "Input/output error");
    }
  });
  set_retry_wait({});
  CHECK(failed == 3);
}

TEST_CASE("a checkpoint that one rank cannot open is an error of all ranks") {
  const TempDir dir;
  State whole(small_table());
  save(dir.path, whole, 1, 7);
  const std::filesystem::path manifest = dir.path / "step-00000001" / "manifest.json";
  std::atomic<int> failed = 0, passed = 0;
  // Rank 0 has chosen it when the others find it gone.
  set_retry_wait([](std::chrono::milliseconds) {});
  run_thread_ranks(3, [&](World& world) {
    const auto group = world.group("world", {0, 1, 2});
    const ParamTable table = small_table();
    if (choose_checkpoint("auto", dir.path, table, *group)) ++passed;
    group->barrier();
    if (world.rank() == 0) std::filesystem::rename(manifest, dir.path / "kept");
    group->barrier();
    try {
      on_all_ranks(*group, [&] {
        if (world.rank() > 0) Checkpoint::open(dir.path / "step-00000001", Checkpoint::Verify::manifest);
        return std::string();
      });
    } catch (const DataError& e) {
      failed += contains(e.what(), "rank 1 on ") && contains(e.what(), "it has no manifest.json");
    }
  });
  set_retry_wait({});
  CHECK(passed == 3);
  CHECK(failed == 3);
}

TEST_CASE("a run does not go back behind a checkpoint of a later format") {
  const TempDir dir;
  State state(small_table());
  for (const int64_t step : {1, 2, 3}) save(dir.path, state, step, 7);
  for (const char* name : {"step-00000002", "step-00000003"}) make_newer(dir.path / name);
  try {
    checkpoint_to_resume("auto", dir.path, state.table);
    FAIL("one was chosen");
  } catch (const ConfigError& e) {
    CHECK(contains(e.what(), "step-00000003: is of format version 7, this program reads version 1"));
    CHECK(contains(e.what(), "--resume " + (dir.path / "step-00000001").string() + " and --set run.directory=ANOTHER"));
  }
  CHECK(names_in(dir.path) == std::vector<std::string>{"step-00000001", "step-00000002", "step-00000003"});
}

}  // namespace
}  // namespace fp::test
