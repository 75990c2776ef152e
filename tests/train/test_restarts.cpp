#include <catch2/catch.hpp>
#include <fstream>

#include "base/error.h"
#include "support/process.h"
#include "train/restarts.h"

using namespace fp;
using Catch::Contains;
using fp::test::TemporaryFolder;

namespace {

// A start of job 7 at this step; nullopt: a start that never completes set-up.
void start(const std::filesystem::path& file, int64_t restarts, FirstStep step, const std::string& job = "7") {
  require_progress(file, {job, restarts, {}}, step);
  record_start(file, {job, restarts, {}}, step);
}

}  // namespace

TEST_CASE("a job that begins at the same step for the third time is refused") {
  const TemporaryFolder folder;
  const auto file = folder.path / "restarts.json";
  start(file, 0, 0);
  start(file, 1, 0);
  CHECK_THROWS_WITH(start(file, 2, 0), Contains("job 7 makes no progress") && Contains("from step 0"));
  CHECK_THROWS_AS(start(file, 2, 0), ConfigError);
  CHECK_NOTHROW(start(file, 0, 0, "8"));  // another job may start there
}

TEST_CASE("a job with any progress may restart without limit") {
  const TemporaryFolder folder;
  const auto file = folder.path / "restarts.json";
  for (int restarts = 0; restarts < 200; ++restarts) CHECK_NOTHROW(start(file, restarts, restarts / 2));
  CHECK_NOTHROW(start(file, 200, 5));  // an older checkpoint: this step did not occur in the last two starts
  CHECK_NOTHROW(start(file, 202, 5));  // start 201 left no record
  CHECK_NOTHROW(start(file, 203, 5));
  CHECK_THROWS_AS(start(file, 204, 5), ConfigError);
  CHECK(std::filesystem::file_size(file) < 10000);
}

TEST_CASE("a repeated start counts once, and a broken file is replaced") {
  const TemporaryFolder folder;
  const auto file = folder.path / "restarts.json";
  for (int i = 0; i < 5; ++i) CHECK_NOTHROW(start(file, 1, 3));  // several srun in one script
  std::ofstream(file) << "{\"job\": ";
  CHECK_NOTHROW(require_progress(file, {"7", 2, {}}, 3));  // as on other ranks: does not change the file
  CHECK_FALSE(std::filesystem::exists(folder.path / "restarts.json.broken-1"));
  CHECK_NOTHROW(start(file, 2, 3));
  CHECK(std::filesystem::exists(folder.path / "restarts.json.broken-1"));
  CHECK_NOTHROW(start(file, 3, 3));
  CHECK_THROWS_AS(start(file, 4, 3), ConfigError);
}

TEST_CASE("starts that never complete set-up count as no progress") {
  const TemporaryFolder folder;
  const auto file = folder.path / "restarts.json";
  start(file, 0, {});
  start(file, 1, {});
  CHECK_THROWS_WITH(start(file, 2, {}), Contains("job 7") && Contains("did not get through set-up"));
  start(file, 1, 20);  // completes set-up after all
  CHECK_NOTHROW(start(file, 2, {}));
  CHECK_THROWS_AS(start(file, 3, 20), ConfigError);
  CHECK_NOTHROW(start(file, 3, 30));
  CHECK_NOTHROW(start(file, 3, {}));  // a second srun in one script: the step of the first stays
  CHECK_THROWS_AS(start(file, 4, 30), ConfigError);
}

TEST_CASE("a restarts.json that cannot be read or written does not end the run") {
  const TemporaryFolder folder;
  const auto directory = folder.path / "restarts.json", loop = folder.path / "loop";
  std::filesystem::create_directory(directory);
  std::filesystem::create_symlink(loop, loop);
  for (const auto& file : {directory, loop, folder.path / "missing" / "restarts.json"}) {
    CAPTURE(file);
    CHECK_NOTHROW(start(file, 2, 0));
    CHECK_NOTHROW(record_save(file, {3, 4}));
    CHECK(!last_save(file));
  }
}

TEST_CASE("the duration of a save is known to later starts") {
  const TemporaryFolder folder;
  const auto file = folder.path / "restarts.json";
  CHECK(!last_save(file));
  record_save(file, {12.5, 4});
  start(file, 0, 0);
  start(file, 1, 0);
  CHECK(last_save(file)->seconds == 12.5);
  CHECK(last_save(file)->ranks == 4);
  record_save(file, {3, 4});
  CHECK(last_save(file)->seconds == 3.0);
  CHECK_THROWS_AS(start(file, 2, 0), ConfigError);
}
