// Checkpoints that the file system does not let one read: nothing is known about what they hold, so nothing is passed
// over or replaced.
#include "fixture.h"
#include "io/retry.h"
#include "support/nobody.h"

namespace fp::test {
namespace {

using std::filesystem::path;

struct Unreadable {
  MemoryFolder dir;
  path checkpoints = dir.path / "checkpoints", newest = checkpoints / "step-00000002";
  State state{small_table()};
  int waits = 0, mended_at = 0;
  FailingReads reads;

  Unreadable() {
    for (const int64_t step : {1, 2}) save(checkpoints, state, step, static_cast<uint64_t>(step));
    set_retry_wait([this](std::chrono::milliseconds) {
      if (++waits == mended_at) mend();
    });
  }
  ~Unreadable() { set_retry_wait({}); }

  void break_file(const path& file) { reads.break_file(file); }
  void mend() { reads.mend(); }
};

TEST_CASE("a manifest that is temporarily unreadable is read on retry") {
  Unreadable u;
  u.break_file(u.newest / "manifest.json");
  u.mended_at = 3;
  CHECK(find_latest(u.checkpoints)->manifest().step == 2);
  CHECK(u.waits == 3);
}

TEST_CASE("a checkpoint with an I/O error is not skipped") {
  Unreadable u;
  u.break_file(u.newest / "manifest.json");
  try {
    find_latest(u.checkpoints);
    FAIL("one was found");
  } catch (const InfrastructureError& e) {
    CHECK(contains(e.what(), "step-00000002/manifest.json: cannot read "));
    CHECK(contains(e.what(), " bytes from byte 0: Input/output error"));
  }
  CHECK(u.waits > 0);
}

TEST_CASE("an unreadable checkpoint is neither replaced nor moved") {
  Unreadable u;
  u.break_file(u.newest / "manifest.json");
  CHECK(contains(data_error([&] { save(u.checkpoints, u.state, 2, 5); }), ": Input/output error"));
  u.mend();
  CHECK(names_in(u.checkpoints) == std::vector<std::string>{"step-00000001", "step-00000002"});
  load_checkpoint(u.newest, u.state.store, *u.state.ops);
  CHECK(u.state.wrong(2) == 0);
}

TEST_CASE("temporarily unreadable tensors are retried, and permanent I/O errors are not damage") {
  Unreadable u;
  const Checkpoint checkpoint = Checkpoint::open(u.newest);
  for (const char* file : {"rank-00000.h5", "index.bin"}) {
    CAPTURE(file);
    State loaded(small_table());
    u.break_file(u.newest / file);
    u.mended_at = u.waits + 2;
    checkpoint.load(loaded.store, *loaded.ops);
    CHECK(u.waits == u.mended_at);
    CHECK(loaded.wrong(2) == 0);
    u.break_file(u.newest / file);
    u.mended_at = 0;
    CHECK_THROWS_AS(checkpoint.load(loaded.store, *loaded.ops), InfrastructureError);
    u.mend();
  }
}

TEST_CASE("a checkpoint without read permission is not skipped") {
  Unreadable u;
  for (const path& folder : {u.dir.path, u.checkpoints, u.newest})
    std::filesystem::permissions(folder, std::filesystem::perms::all);
  std::filesystem::permissions(u.newest / "manifest.json", std::filesystem::perms::none);
  {
    const test::Nobody nobody;
    CHECK_THROWS_AS(find_latest(u.checkpoints), AccessError);
  }
  CHECK(u.waits == 0);
}

TEST_CASE("missing files and dangling links are reported as damage without retries") {
  Unreadable u;
  std::filesystem::remove(u.newest / "config.yaml");
  std::filesystem::create_symlink(u.dir.path / "nowhere", u.newest / "config.yaml");
  CHECK(find_latest(u.checkpoints)->manifest().step == 1);
  std::filesystem::remove(u.newest / "manifest.json");
  CHECK(find_latest(u.checkpoints)->manifest().step == 1);
  CHECK(u.waits == 0);
}

}  // namespace
}  // namespace fp::test
