// Loads by all ranks, mostly by a single one here: real damage and temporary failures.
#include <numeric>

#include "checkpoint/fixture.h"
#include "comm/backends.h"
#include "io/retry.h"
#include "train/coordination.h"
#include "train/resume.h"

namespace fp::test {
namespace {

struct TogetherRig {
  MemoryFolder dir;
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
  write_text(rig.folder / "rank-00000.h5", content);
  const auto damage = load_or_find_damage(rig.checkpoint, rig.loaded.store, *rig.loaded.ops, *rig.group);
  REQUIRE(damage);
  CHECK_FALSE(damage->files_match);
  CHECK(contains(damage->text, "rank-00000.h5: content differs from what was saved"));
}

TEST_CASE("a checkpoint with intact files but wrong tensors is damaged after the second load") {
  TogetherRig rig;
  alter_sealed(rig.folder);
  const Checkpoint checkpoint = Checkpoint::open(rig.folder);
  std::optional<LoadDamage> damage;
  const std::string text = logged(rig.dir.path / "log.txt", [&] {
    damage = load_or_find_damage(checkpoint, rig.loaded.store, *rig.loaded.ops, *rig.group);
  });
  REQUIRE(damage);
  CHECK(damage->files_match);
  CHECK(contains(damage->text, "these tensors differ from the saved ones"));
  CHECK(contains(text, "its files are what was saved, as rank 0 sees them: loading once more"));
}

TEST_CASE("a file that one rank cannot read is an error on all ranks, not damage") {
  const MemoryFolder dir;
  State whole(small_table());
  const std::filesystem::path folder = save(dir.path, whole, 1, 7);
  set_retry_wait([](std::chrono::milliseconds) {});
  std::atomic<int> failed = 0;
  FailingReads reads;
  run_thread_ranks(3, [&](World& world) {
    const auto group = world.group("world", {0, 1, 2});
    const Checkpoint checkpoint = Checkpoint::open(folder);
    group->barrier();
    if (world.rank() == 0) reads.break_file(folder / "rank-00000.h5");
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

TEST_CASE("a checkpoint that one rank cannot open is an error on all ranks") {
  const MemoryFolder dir;
  State whole(small_table());
  save(dir.path, whole, 1, 7);
  const std::filesystem::path manifest = dir.path / "step-00000001" / "manifest.json";
  std::atomic<int> failed = 0, passed = 0;
  // The checkpoint disappears after rank 0 has chosen it.
  set_retry_wait([](std::chrono::milliseconds) {});
  run_thread_ranks(3, [&](World& world) {
    const auto group = world.group("world", {0, 1, 2});
    const ParamTable table = small_table();
    DamagedCheckpoints damaged;
    if (choose_checkpoint("auto", dir.path, table, *group, {}, damaged)) ++passed;
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

TEST_CASE("a run reads only its own older checkpoints by HDF5, with a warning") {
  TogetherRig rig;
  make_older(rig.folder);
  const auto loads = [&](const std::string& resume, const std::filesystem::path& own) {
    std::optional<Checkpoint> chosen;
    DamagedCheckpoints damaged;
    const std::string text = logged(rig.dir.path / "log.txt", [&] {
      chosen = choose_checkpoint(resume, own, rig.loaded.table, *rig.group, {}, damaged);
    });
    REQUIRE(chosen);
    CHECK(contains(text, "did not write index.bin; HDF5 reads it") == chosen->allows_hdf5());
    rig.loaded.poison();
    try {
      load_on_all_ranks(*chosen, rig.loaded.store, *rig.loaded.ops, *rig.group);
    } catch (const ConfigError& e) {
      CHECK(contains(e.what(), "add --hdf5"));
      return false;
    }
    CHECK(rig.loaded.wrong(7) == 0);
    return true;
  };
  CHECK(loads("auto", rig.dir.path));
  CHECK(loads(rig.folder.string() + "/", rig.dir.path));
  CHECK_FALSE(loads(rig.folder.string(), rig.dir.path / "another"));
}

TEST_CASE("host memory that does not suffice is refused with what would fit") {
  constexpr size_t kGib = size_t{1} << 30;
  const auto verdict = [](const HostNeed& need, size_t available) -> std::string {
    try {
      require_fit_on_host(need, static_cast<int64_t>(available), "node1");
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "fits";
  };
  CHECK(verdict({8 * kGib, 24 * kGib, 8}, 32 * kGib) == "fits");
  CHECK(verdict({8 * kGib, 24 * kGib, 8}, 0) == "fits");  // not known
  const std::string text = verdict({8 * kGib, 24 * kGib, 8}, 30 * kGib);
  CHECK(contains(text,
                 "the 8 ranks of node1 need 32.00 GiB of its host memory (24.00 for offloaded tensors, 8.00 for saves "
                 "beside training), 30.00 GiB are available"));
  CHECK(contains(text, "checkpoint.asynchronous=false"));
  CHECK(contains(text, "memory.offload.optimizer=none"));
  CHECK(contains(text, "it suffices for 7 ranks of this run on a node"));
  const std::string less = verdict({8 * kGib, 24 * kGib, 8}, 20 * kGib);
  CHECK_FALSE(contains(less, "checkpoint.asynchronous"));
  CHECK(contains(less, "it suffices for 5 ranks"));
  CHECK_FALSE(contains(verdict({0, 24 * kGib, 1}, kGib), "suffices for"));
  CHECK_FALSE(contains(verdict({2 * kGib, 0, 1}, kGib), "offload"));
}

TEST_CASE("ranks that run attention differently from their pipeline stage are named") {
  const auto text_of = [](const std::vector<std::pair<int, std::string>>& ranks) {
    std::vector<std::string> texts(ranks.size());
    run_thread_ranks(static_cast<int>(ranks.size()), [&](World& world) {
      std::vector<int> members(ranks.size());
      std::iota(members.begin(), members.end(), 0);
      const auto& [stage, attention] = ranks[static_cast<size_t>(world.rank())];
      Prediction p;
      p.attention = {attention};
      texts[static_cast<size_t>(world.rank())] = differing_attention(p, stage, *world.group("world", members));
    });
    CHECK(texts == std::vector<std::string>(ranks.size(), texts[0]));
    return texts[0];
  };
  const std::string old = "flash (cudnn: cuDNN 9.8.0 is older than 9.10.2)";
  CHECK(text_of({{0, "cudnn"}, {1, old}, {0, "cudnn"}, {1, old}}).empty());
  const std::string text = text_of({{0, "cudnn"}, {1, "cudnn"}, {0, old}, {1, "cudnn"}});
  CHECK_THAT(text, Catch::StartsWith("attention is run by " + old + " on rank 2 (host "));
  CHECK_THAT(text, Catch::EndsWith("), but by cudnn on rank 0: every step waits for the slower ones"));
  CHECK(contains(text_of({{0, "cudnn"}, {0, old}, {0, old}, {0, old}}), "on rank 0, and 2 more ranks differ: "));
}

TEST_CASE("a run resumes from a path elsewhere only where it has no checkpoints") {
  const MemoryFolder dir;
  State state(small_table());
  save(dir.path / "own", state, 5, 7);
  save(dir.path / "other", state, 6, 7);
  DamagedCheckpoints damaged;
  const auto from = [&](const char* folder, const char* own) {
    const std::string path = (dir.path / folder).string();
    return checkpoint_to_resume(path, dir.path / own, state.table, {}, damaged)->manifest().step;
  };
  CHECK(from("own/step-00000005", "own") == 5);
  CHECK(from("own/../own/step-00000005/", "own") == 5);
  CHECK(from("other/step-00000006", "new") == 6);
  std::filesystem::create_directory_symlink(dir.path / "own/step-00000005", dir.path / "latest");
  CHECK(from("latest", "own") == 5);
  try {
    from("other/step-00000006", "own");
    FAIL("the checkpoints of the folder would be deleted in time");
  } catch (const ConfigError& e) {
    CHECK(contains(e.what(), "already holds other checkpoints, up to step-00000005"));
  }
}

TEST_CASE("a run does not resume from before a checkpoint of a later format") {
  const MemoryFolder dir;
  State state(small_table());
  for (const int64_t step : {1, 2, 3}) save(dir.path, state, step, 7);
  for (const char* name : {"step-00000002", "step-00000003"}) make_newer(dir.path / name);
  try {
    DamagedCheckpoints damaged;
    checkpoint_to_resume("auto", dir.path, state.table, {}, damaged);
    FAIL("one was chosen");
  } catch (const ConfigError& e) {
    CHECK(contains(e.what(), "step-00000003: is of format version 7, this program reads up to version 3"));
    CHECK(contains(e.what(), "--resume " + (dir.path / "step-00000001").string() + " and --set run.directory=ANOTHER"));
  }
  CHECK(names_in(dir.path) == std::vector<std::string>{"step-00000001", "step-00000002", "step-00000003"});
}

}  // namespace
}  // namespace fp::test
