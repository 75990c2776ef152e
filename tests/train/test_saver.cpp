// Background saves, mostly of one rank: their content, reported failures and leftovers.
#include "base/progress.h"
#include "checkpoint/fixture.h"
#include "comm/backends.h"
#include "config/load.h"
#include "dryrun/setup.h"
#include "support/gate.h"
#include "train/saver.h"

namespace fp::test {
namespace {

RunSpec spec_of(const std::string& checkpoint) {
  RunSpec spec;
  spec.train.steps = 100;
  spec.checkpoint.every = 1;
  spec.checkpoint.keep_last = 0;
  if (checkpoint == "synchronous") spec.checkpoint.asynchronous = false;
  return spec;
}

constexpr double kNever = 1e9;  // seconds after which a save hangs

struct SaverRig {
  explicit SaverRig(const RunSpec& spec)
      : group(world.group("world", {0})), saver(dir.path, spec, state.store, *state.ops, *group, SaveOptions{}) {}
  // Runs a step that ends with a save of the store's state.
  void begin(int64_t step) {
    state.fill(static_cast<uint64_t>(step));
    saver.begin(some_state(step), kNever);
  }
  void advance_until_done() {
    while (outcomes.empty()) {
      saver.advance(saver.busy());
      outcomes = saver.take_outcomes();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  bool holds(int64_t step) {
    State loaded(small_table());
    load_checkpoint(dir.path / checkpoint_name(step), loaded.store, *loaded.ops);
    return loaded.wrong(static_cast<uint64_t>(step)) == 0;
  }

  MemoryFolder dir;
  State state{small_table()};
  World world{0, 1};
  std::shared_ptr<Group> group;
  Saver saver;
  std::vector<Saver::Saved> outcomes;
};

// Must go out of scope before the rig.
struct Hook {
  explicit Hook(storage::Hook h) { storage::set_hook(std::move(h)); }
  ~Hook() { storage::set_hook({}); }
};

TEST_CASE("a save holds the state at its beginning, although training continues") {
  SaverRig rig(spec_of("background"));
  rig.begin(1);
  CHECK_FALSE(std::filesystem::exists(rig.dir.path / checkpoint_name(1)));
  rig.state.fill(99);
  rig.advance_until_done();
  REQUIRE(rig.outcomes.size() == 1);
  CHECK(rig.outcomes[0].error.empty());
  CHECK(rig.outcomes[0].in_background);
  CHECK(rig.outcomes[0].path == rig.dir.path / checkpoint_name(1));
  CHECK(rig.outcomes[0].bytes > Staging::bytes_for(rig.state.table, 0));
  CHECK(rig.saver.saves() == 1);
  CHECK(rig.holds(1));
}

TEST_CASE("a save that fails on an unreachable file system has exit code infrastructure") {
  for (const char* how : {"background", "synchronous"})
    for (const ExitCode code : {ExitCode::infrastructure, ExitCode::bad_data}) {
      CAPTURE(how, static_cast<int>(code));
      SaverRig rig(spec_of(how));
      const Hook hook([&](storage::Step s, const std::filesystem::path& path) {
        if (s != storage::Step::remove) throw DataError(path.string() + ": cannot write", code);
      });
      rig.begin(1);
      rig.saver.finish();
      rig.outcomes = rig.saver.take_outcomes();
      REQUIRE(rig.outcomes.size() == 1);
      CHECK_FALSE(rig.outcomes[0].error.empty());
      CHECK(rig.outcomes[0].code == code);
    }
}

TEST_CASE("neither training nor the next save waits for a save on a hanging disk") {
  SaverRig rig(spec_of("background"));
  const auto gate = std::make_shared<test::Gate>();
  const Hook hook([gate, main = std::this_thread::get_id()](storage::Step, const std::filesystem::path&) {
    if (std::this_thread::get_id() != main) gate->pass();
  });
  CHECK(rig.saver.ready_for_next(0.01));
  rig.state.fill(1);
  rig.saver.begin(some_state(1), 0.01);
  CHECK(std::filesystem::is_empty(rig.dir.path));
  rig.state.fill(99);
  rig.saver.advance(rig.saver.busy());
  CHECK_FALSE(rig.saver.ready_for_next(0.01));
  CHECK(rig.saver.under_way());
  gate->open();
  CHECK(rig.saver.ready_for_next(kNever));
  rig.outcomes = rig.saver.take_outcomes();
  REQUIRE(rig.outcomes.size() == 1);
  CHECK(rig.outcomes[0].error.empty());
  CHECK(rig.outcomes[0].overran);
  CHECK(rig.holds(1));
}

TEST_CASE("a save that is due before the last one is done waits, and this is recorded") {
  SaverRig rig(spec_of("background"));
  for (const int64_t step : {1, 2, 3}) rig.begin(step);
  rig.saver.finish();
  rig.outcomes = rig.saver.take_outcomes();
  REQUIRE(rig.outcomes.size() == 3);
  CHECK(rig.outcomes[0].overran);
  CHECK(rig.outcomes[1].overran);
  CHECK_FALSE(rig.outcomes[2].overran);
  for (const int64_t step : {1, 2, 3}) CHECK(rig.holds(step));
}

TEST_CASE("a synchronous save finishes the one in progress first") {
  for (const char* how : {"background", "synchronous"}) {
    SaverRig rig(spec_of(how));
    rig.begin(1);
    rig.state.fill(2);
    rig.saver.save_now(some_state(2));
    rig.outcomes = rig.saver.take_outcomes();
    REQUIRE(rig.outcomes.size() == 2);
    CHECK_FALSE(rig.outcomes[1].in_background);
    CHECK(rig.holds(1));
    CHECK(rig.holds(2));
  }
}

TEST_CASE("a save that fails at any step leaves the earlier ones, and the next one succeeds") {
  for (const char* how : {"background", "synchronous"}) {
    CAPTURE(how);
    SaverRig rig(spec_of(how));
    rig.begin(1);
    rig.saver.finish();
    rig.saver.take_outcomes();
    bool failed = true;
    for (int at = 0; failed && at < 1000; ++at) {
      CAPTURE(at);
      std::atomic<int> steps = 0;
      {
        const Hook hook([&](storage::Step s, const std::filesystem::path& path) {
          if (steps++ == at && s != storage::Step::remove) throw DataError(path.string() + ": no more room");
        });
        rig.begin(2);
        rig.saver.finish();
      }
      rig.outcomes = rig.saver.take_outcomes();
      REQUIRE(rig.outcomes.size() == 1);
      failed = !rig.outcomes[0].error.empty();
      if (failed) CHECK_THAT(rig.outcomes[0].error, Catch::Contains("not saved (earlier ones are intact)"));
      CHECK(rig.holds(1));
      clean_leftovers(rig.dir.path);
    }
    CHECK(rig.holds(2));
  }
}

TEST_CASE("a corrupted copy of a rank file fails its save, and the next one succeeds") {
  const MemoryFolder local;
  RunSpec spec = spec_of("background");
  spec.checkpoint.node_local = local.path.string();
  SaverRig rig(spec);
  {
    // Another process alters the copy before it is compared.
    const Hook hook([&](storage::Step s, const std::filesystem::path& path) {
      if (s != storage::Step::sync || path.string().find(kHiddenPrefix) == std::string::npos ||
          path.filename() != "rank-00000.h5")
        return;
      std::string content = read_file(path);
      content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 4);
      write_text(path, content);
    });
    rig.begin(1);
    rig.saver.finish();
  }
  rig.begin(2);
  rig.saver.finish();
  rig.outcomes = rig.saver.take_outcomes();
  REQUIRE(rig.outcomes.size() == 2);
  CHECK_THAT(rig.outcomes[0].error, Catch::Contains("rank-00000.h5: the file differs from the data in memory"));
  CHECK(rig.outcomes[1].error.empty());
  CHECK(checkpoints_in(rig.dir.path).size() == 1);
  CHECK(rig.holds(2));
}

TEST_CASE("destroying a saver cancels a save in progress and publishes nothing") {
  const MemoryFolder dir;
  State state(small_table());
  World world(0, 1);
  const auto group = world.group("world", {0});
  std::atomic<int> writes = 0;
  std::atomic<bool> given_up = false;
  const Hook hook([&](storage::Step s, const std::filesystem::path&) {
    if (s != storage::Step::write || writes++ > 0) return;
    while (!given_up) std::this_thread::yield();
  });
  {
    Saver saver(dir.path, spec_of("background"), state.store, *state.ops, *group, SaveOptions{});
    saver.begin(some_state(1), kNever);
    saver.give_up();
    given_up = true;
  }
  CHECK(writes <= 2);
  CHECK(checkpoints_in(dir.path).empty());
  clean_leftovers(dir.path);
  CHECK(std::filesystem::is_empty(dir.path));
}

TEST_CASE("progress is reported while copying waits for the disk") {
  std::atomic<int> ticks = 0, held_up = 0;
  std::atomic<bool> filling = true;
  set_progress_hook([&] { ++ticks; });
  {
    RunSpec spec = spec_of("background");
    const MemoryFolder dir;
    State state(small_table());
    World world(0, 1);
    const auto group = world.group("world", {0});
    Staging small(Staging::bytes_for(state.table, 1));
    // A write lasts until progress was reported meanwhile, or copying no longer waits for space.
    const Hook hook([&](storage::Step s, const std::filesystem::path&) {
      if (s != storage::Step::write) return;
      const int before = ticks;
      progress();
      while (filling && ticks == before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      held_up += ticks > before;
    });
    small.begin();
    BackgroundTask task([&] {
      progress();
      return write_rank_file(dir.path, state.table, *small.blocks(), 0).file.name;
    });
    small.fill(state.store, *state.ops, [&] { task.pass_on_progress(); });
    filling = false;
    CHECK(held_up > 3);
    CHECK(ticks >= held_up);
    CHECK(task.result().value() == "rank-00000.h5");
  }
  set_progress_hook({});
}

TEST_CASE("an error on one rank fails the save on all, and the next save succeeds") {
  const MemoryFolder dir;
  std::atomic<int> failed = 0, saved = 0;
  std::atomic<bool> broken = true;
  const Hook hook([&](storage::Step s, const std::filesystem::path& path) {
    if (broken && s == storage::Step::write && path.filename() == "rank-00002.h5") throw DataError("a disk of rank 2");
  });
  run_thread_ranks(3, [&](World& world) {
    const auto group = world.group("world", {0, 1, 2});
    State state(small_table(3, world.rank()));
    state.fill(5);
    SaveOptions options;
    options.rank = world.rank();
    Saver saver(dir.path, spec_of("background"), state.store, *state.ops, *group, options);
    for (const int64_t step : {1, 2}) {
      saver.begin(some_state(step), kNever);
      saver.finish();
      for (const auto& s : saver.take_outcomes()) ++(s.error.empty() ? saved : failed);
      group->barrier();
      broken = false;
      group->barrier();
    }
  });
  CHECK(failed == 3);
  CHECK(saved == 3);
  State loaded(small_table());
  load_checkpoint(dir.path / checkpoint_name(2), loaded.store, *loaded.ops);
  CHECK(loaded.wrong(5) == 0);
}

TEST_CASE("ranks train on together while the folder of a save cannot be created") {
  const MemoryFolder dir;
  const auto gate = std::make_shared<test::Gate>();
  const Hook hook([gate](storage::Step s, const std::filesystem::path&) {
    if (s == storage::Step::make_folder) gate->pass();
  });
  std::atomic<int> waited = 0, skipped = 0, saved = 0;
  run_thread_ranks(3, [&](World& world) {
    const auto group = world.group("world", {0, 1, 2});
    State state(small_table(3, world.rank()));
    SaveOptions options;
    options.rank = world.rank();
    Saver saver(dir.path, spec_of("background"), state.store, *state.ops, *group, options);
    state.fill(5);
    saver.begin(some_state(1), 0.01);
    state.fill(99);
    std::vector<double> busy = {saver.busy() ? 1.0 : 0.0};
    group->all_reduce(std::span(busy), Reduction::max);
    waited += busy[0] > 0;
    saver.advance(busy[0] > 0);
    skipped += !saver.ready_for_next(0.01);
    group->barrier();
    gate->open();
    saver.finish();
    for (const auto& s : saver.take_outcomes()) saved += s.error.empty();
  });
  CHECK(waited == 3);
  CHECK(skipped == 3);
  CHECK(saved == 3);
  State loaded(small_table());
  load_checkpoint(dir.path / checkpoint_name(1), loaded.store, *loaded.ops);
  CHECK(loaded.wrong(5) == 0);
}

TEST_CASE("when rank 0 has lost the run's folder, a save ends the run, and other ranks blame rank 0") {
  const MemoryFolder dir;
  const Hook hook([](storage::Step, const std::filesystem::path&) { throw LeaseLost("another run has taken it"); });
  std::atomic<int> blamed = 0;
  run_thread_ranks(2, [&](World& world) {
    const auto group = world.group("world", {0, 1});
    State state(small_table(2, world.rank()));
    SaveOptions options;
    options.rank = world.rank();
    Saver saver(dir.path, spec_of("background"), state.store, *state.ops, *group, options);
    try {
      saver.begin(some_state(1), kNever);
    } catch (const InfrastructureError& e) {
      blamed += e.is_of_another_rank() ? 10 + world.rank() : 100;
    }
  });
  CHECK(blamed == 111);
}

TEST_CASE("an internal error in a background save ends the run") {
  SaverRig rig(spec_of("background"));
  const Hook hook([&](storage::Step s, const std::filesystem::path&) {
    if (s == storage::Step::write) throw InternalError("an invariant");
  });
  rig.begin(1);
  CHECK_THROWS_WITH(rig.saver.finish(), Catch::Contains("internal error in a save") && Catch::Contains("an invariant"));
}

TEST_CASE("files written through the node-local disk arrive, and nothing stays there") {
  const MemoryFolder local;
  RunSpec spec = spec_of("background");
  spec.checkpoint.node_local = local.path / "scratch";
  CHECK_THROWS_WITH(SaverRig(spec), Catch::Contains("no such folder"));
  std::filesystem::create_directory(spec.checkpoint.node_local);
  SaverRig rig(spec);
  rig.begin(1);
  rig.saver.finish();
  CHECK(rig.holds(1));
  const auto files_left = [&] {
    size_t left = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(local.path)) left += entry.is_regular_file();
    return left;
  };
  CHECK(files_left() == 0);
  {
    const Hook hook([&](storage::Step s, const std::filesystem::path& path) {
      if (s == storage::Step::create_file && path.parent_path().filename() == ".tmp-step-00000002")
        throw DataError("the shared disk is away");
    });
    rig.begin(2);
    rig.saver.finish();
  }
  CHECK(files_left() == 0);
  rig.begin(3);
  rig.saver.finish();
  rig.outcomes = rig.saver.take_outcomes();
  REQUIRE(rig.outcomes.size() == 3);
  CHECK_THAT(rig.outcomes[1].error, Catch::Contains("the shared disk is away"));
  CHECK(rig.holds(3));
}

TEST_CASE("staging memory is the size of the rank's state, up to the configured limit") {
  const ParamTable table = small_table();
  RunSpec spec = spec_of("background");
  const size_t all = static_cast<size_t>(table.logical_parameters()) * 12;
  CHECK(staging_bytes(spec, table) == all);
  spec.checkpoint.asynchronous = false;
  CHECK(staging_bytes(spec, table) == 0);
  spec.checkpoint.asynchronous = true;
  spec.checkpoint.every = spec.train.steps;
  CHECK(staging_bytes(spec, table) == 0);
  spec.checkpoint.every = 0;
  CHECK(staging_bytes(spec, table) == 0);
}

}  // namespace
}  // namespace fp::test
