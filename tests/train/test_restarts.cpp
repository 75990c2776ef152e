#include <catch2/catch.hpp>
#include <fstream>

#include "base/error.h"
#include "support/process.h"
#include "train/restarts.h"

using namespace fp;
using Catch::Contains;
using fp::testing::TemporaryFolder;

namespace {

// A life of job 7 that begins at this step; none: that never gets through set-up.
void live(const std::filesystem::path& file, int64_t restarts, FirstStep step, const std::string& job = "7") {
  require_progress(file, {job, restarts, {}}, step);
  note_start(file, {job, restarts, {}}, step);
}

}  // namespace

TEST_CASE("a job that begins at the same step for the third time is refused") {
  const TemporaryFolder folder;
  const auto file = folder.path / "restarts.json";
  live(file, 0, 0);
  live(file, 1, 0);
  CHECK_THROWS_WITH(live(file, 2, 0), Contains("job 7 makes no progress") && Contains("from step 0"));
  CHECK_THROWS_AS(live(file, 2, 0), ConfigError);
  CHECK_NOTHROW(live(file, 0, 0, "8"));  // another job may try
}

TEST_CASE("progress, however little, lets a job come back for ever") {
  const TemporaryFolder folder;
  const auto file = folder.path / "restarts.json";
  for (int life = 0; life < 200; ++life) CHECK_NOTHROW(live(file, life, life / 2));
  CHECK_NOTHROW(live(file, 200, 5));  // an older checkpoint: not the same step twice before
  CHECK_NOTHROW(live(file, 202, 5));  // a life in between that did not come so far
  CHECK_NOTHROW(live(file, 203, 5));
  CHECK_THROWS_AS(live(file, 204, 5), ConfigError);
  CHECK(std::filesystem::file_size(file) < 10000);
}

TEST_CASE("a life that is begun again counts once, and a broken file is begun anew") {
  const TemporaryFolder folder;
  const auto file = folder.path / "restarts.json";
  for (int i = 0; i < 5; ++i) CHECK_NOTHROW(live(file, 1, 3));  // several srun in one script
  std::ofstream(file) << "{\"job\": ";
  CHECK_NOTHROW(require_progress(file, {"7", 2, {}}, 3));  // any rank, which changes nothing
  CHECK_FALSE(std::filesystem::exists(folder.path / "restarts.json.broken-1"));
  CHECK_NOTHROW(live(file, 2, 3));
  CHECK(std::filesystem::exists(folder.path / "restarts.json.broken-1"));
  CHECK_NOTHROW(live(file, 3, 3));
  CHECK_THROWS_AS(live(file, 4, 3), ConfigError);
}

TEST_CASE("lives that never get through set-up gained nothing") {
  const TemporaryFolder folder;
  const auto file = folder.path / "restarts.json";
  live(file, 0, {});
  live(file, 1, {});
  CHECK_THROWS_WITH(live(file, 2, {}), Contains("job 7") && Contains("did not get through set-up"));
  live(file, 1, 20);  // it does, after a while
  CHECK_NOTHROW(live(file, 2, {}));
  CHECK_THROWS_AS(live(file, 3, 20), ConfigError);
  CHECK_NOTHROW(live(file, 3, 30));
  CHECK_NOTHROW(live(file, 3, {}));  // a second srun in one script; what the first began with stays
  CHECK_THROWS_AS(live(file, 4, 30), ConfigError);
}

TEST_CASE("a restarts.json that cannot be read or written ends no run") {
  const TemporaryFolder folder;
  const auto directory = folder.path / "restarts.json", loop = folder.path / "loop";
  std::filesystem::create_directory(directory);
  std::filesystem::create_symlink(loop, loop);
  for (const auto& file : {directory, loop, folder.path / "missing" / "restarts.json"}) {
    CAPTURE(file);
    CHECK_NOTHROW(live(file, 2, 0));
    CHECK_NOTHROW(note_save(file, 3));
    CHECK(!last_save(file));
  }
}

TEST_CASE("how long a save took is known to the lives after it") {
  const TemporaryFolder folder;
  const auto file = folder.path / "restarts.json";
  CHECK(!last_save(file));
  note_save(file, 12.5);
  live(file, 0, 0);
  live(file, 1, 0);
  CHECK(last_save(file) == 12.5);
  note_save(file, 3);
  CHECK(last_save(file) == 3.0);
  CHECK_THROWS_AS(live(file, 2, 0), ConfigError);
}
