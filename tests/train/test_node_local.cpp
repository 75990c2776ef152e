// checkpoint.node_local on a disk that others can write to: what they plant there is neither used nor removed.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <set>

#include "checkpoint/fixture.h"
#include "checkpoint/node_local.h"
#include "comm/backends.h"
#include "io/filesystem.h"
#include "support/nobody.h"
#include "train/saver.h"

namespace fp::test {
namespace {

namespace fs = std::filesystem;
using fp::test::Nobody;

struct PlantedHook {
  explicit PlantedHook(storage::Hook h) { storage::set_hook(std::move(h)); }
  ~PlantedHook() { storage::set_hook({}); }
};

std::set<std::string> names_below(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (!entry.is_directory()) names.insert(entry.path().lexically_relative(folder).string());
  return names;
}

// The folder that older versions used for rank 0, whose name can be predicted.
fs::path foreseeable(const fs::path& local, const fs::path& checkpoints) {
  const std::string run = fs::absolute(checkpoints).string();
  return local / fmt::format("fptrain-{}-00000", hash_bytes(run.data(), run.size()));
}

// A run of one rank that saves once in the background through `local`.
struct NodeLocalRun {
  explicit NodeLocalRun(const fs::path& local) {
    spec.train.steps = 100;
    spec.checkpoint.every = 1;
    spec.checkpoint.node_local = local;
  }
  void save() {
    Saver saver(dir.path, spec, state.store, *state.ops, *group, SaveOptions{});
    state.fill(1);
    saver.begin(some_state(1), 1e9);
    saver.finish();
    outcome = saver.take_outcomes().at(0).error;
  }
  bool saved() {
    State loaded(small_table());
    load_checkpoint(dir.path / checkpoint_name(1), loaded.store, *loaded.ops);
    return outcome.empty() && loaded.wrong(1) == 0;
  }

  MemoryFolder dir;
  RunSpec spec;
  State state{small_table()};
  World world{0, 1};
  std::shared_ptr<Group> group = world.group("world", {0});
  std::string outcome;
};

struct SharedScratch {
  SharedScratch() { REQUIRE(::chmod(dir.path.c_str(), 0777) == 0); }
  MemoryFolder dir;
};

}  // namespace

TEST_CASE("a planted link on the node-local disk does not get another folder's files deleted") {
  const SharedScratch scratch;
  const MemoryFolder victim;
  for (const char* name : {"thesis.tex", "rank-00000.h5"}) write_text(victim.path / name, "years of work");
  NodeLocalRun run(scratch.dir.path);
  {
    const Nobody nobody;  // where this is run by root, another user plants it
    fs::create_directory_symlink(victim.path, foreseeable(scratch.dir.path, run.dir.path));
  }
  run.save();
  CHECK(run.saved());
  CHECK(names_below(victim.path) == std::set<std::string>{"rank-00000.h5", "thesis.tex"});
  CHECK(read_file(victim.path / "rank-00000.h5") == "years of work");
}

TEST_CASE("a planted folder on the node-local disk receives no data of a save") {
  const SharedScratch scratch;
  NodeLocalRun run(scratch.dir.path);
  const fs::path planted = foreseeable(scratch.dir.path, run.dir.path);
  {
    const Nobody nobody;
    fs::create_directory(planted);
    REQUIRE(::chmod(planted.c_str(), 0777) == 0);
    write_text(planted / "bait", "x");
  }
  std::set<std::string> while_copied;
  {
    const PlantedHook hook([&](storage::Step s, const fs::path& path) {
      if (s != storage::Step::create_file || path.parent_path().filename() != ".tmp-step-00000001" ||
          path.filename() != "rank-00000.h5")
        return;
      while_copied = names_below(scratch.dir.path);
    });
    run.save();
  }
  CHECK(while_copied == std::set<std::string>{(planted.filename() / "bait").string()});
  CHECK(run.saved());
  CHECK(names_below(scratch.dir.path) == std::set<std::string>{(planted.filename() / "bait").string()});
  CHECK(std::distance(fs::directory_iterator(scratch.dir.path), fs::directory_iterator()) == 1);
}

TEST_CASE("leftovers of killed starts on the node-local disk are removed by the next start of their rank") {
  const MemoryFolder scratch, checkpoints;
  struct Killed : std::exception {};
  std::set<std::string> left;
  // Each of four ranks is killed while its file has a name. The hook is called before that, so the folder is recreated.
  for (int rank = 0; rank < 4; ++rank) {
    const NodeLocal local(scratch.path, checkpoints.path, rank, 4);
    State state(small_table());
    fs::path folder;
    const PlantedHook hook([&](storage::Step s, const fs::path& path) {
      if (s != storage::Step::create_file) return;
      folder = path.parent_path();
      throw Killed();
    });
    CHECK_THROWS_AS(local.write_rank_file(checkpoints.path, state.table, *blocks_of(state.store, *state.ops), rank),
                    Killed);
    REQUIRE(::mkdir(folder.c_str(), 0700) == 0);
    write_text(folder / "rank-00000.h5", "x");
    left.insert(folder.filename().string());
  }
  const auto folders = [&] {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(scratch.path)) names.insert(entry.path().filename().string());
    return names;
  };
  CHECK(folders() == left);
  const NodeLocal another_run(scratch.path, checkpoints.path / "other", 0, 1);
  CHECK(folders() == left);
  const NodeLocal first(scratch.path, checkpoints.path, 0, 3);  // and for the fourth, which is no more
  CHECK(folders().size() == 2);
  const NodeLocal second(scratch.path, checkpoints.path, 1, 3);
  CHECK(folders().size() == 1);
  const NodeLocal third(scratch.path, checkpoints.path, 2, 3);
  CHECK(folders().empty());
}

}  // namespace fp::test
