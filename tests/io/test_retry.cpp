// Tests of retried reads. A symbolic link to the memory of this process is a file whose first bytes cannot be read
// (EIO).
#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "io/filesystem.h"
#include "io/retry.h"
#include "support/temporary_folder.h"

namespace fs = std::filesystem;

namespace {

// Waits take no time; `at_wait` may repair the file meanwhile.
struct RecordedWaits {
  std::vector<int64_t> ms;
  explicit RecordedWaits(std::function<void(size_t)> at_wait = {}) {
    fp::set_retry_wait([this, at_wait = std::move(at_wait)](std::chrono::milliseconds time) {
      ms.push_back(time.count());
      if (at_wait) at_wait(ms.size());
    });
  }
  ~RecordedWaits() { fp::set_retry_wait({}); }
};

}  // namespace

TEST_CASE("a transient read failure is retried until it succeeds") {
  const fp::test::TemporaryFolder folder;
  const auto break_it = [&] {
    fs::remove(folder / "file");
    fs::create_symlink("/proc/self/mem", folder / "file");
  };
  const RecordedWaits waits([&](size_t n) {
    if (n % 3 != 0) return;
    fs::remove(folder / "file");
    fp::write_file_atomically(folder / "file", "content");
  });
  break_it();
  CHECK(fp::read_file(folder / "file") == "content");
  CHECK(waits.ms == std::vector<int64_t>{50, 100, 200});
  break_it();
  CHECK(fp::hash_file(folder / "file") == fp::hash_bytes("content", 7));
  CHECK(waits.ms.size() == 6);
}

TEST_CASE("a read that fails for a minute is an infrastructure error and not a data error") {
  const fp::test::TemporaryFolder folder;
  fs::create_symlink("/proc/self/mem", folder / "file");
  const RecordedWaits waits;
  try {
    fp::read_file(folder / "file");
    FAIL("read");
  } catch (const fp::InfrastructureError& e) {
    CHECK_THAT(e.what(), Catch::StartsWith((folder / "file").string() + ": cannot read: Input/output error"));
  }
  int64_t all = 0;
  for (const int64_t ms : waits.ms) all += ms;
  CHECK(all > 50'000);
  CHECK(all < 60'000);
}

TEST_CASE("each errno of a read maps to its kind of error") {
  const fp::test::TemporaryFolder folder;
  fp::write_file_atomically(folder / "there", "x");
  fs::create_symlink(folder / "nowhere", folder / "link");
  using fp::fail_reading;
  for (const int error : {EIO, ESTALE, ETIMEDOUT, EINTR, EAGAIN})
    CHECK_THROWS_AS(fail_reading("open", folder / "there", error), fp::InfrastructureError);
  // A network client whose cache still says that the file does not exist.
  CHECK_THROWS_AS(fail_reading("open", folder / "there", ENOENT), fp::InfrastructureError);
  for (const char* absent : {"absent", "absent/below", "link"})
    CHECK_THROWS_AS(fail_reading("open", folder / absent, ENOENT), fp::DataError);
  CHECK_THROWS_AS(fail_reading("open", folder / "there", EACCES), fp::AccessError);
  CHECK_THROWS_AS(fail_reading("open", folder / "there", ELOOP), fp::DataError);
}

TEST_CASE("size_of_file returns the size of an existing regular file") {
  const fp::test::TemporaryFolder folder;
  fp::write_file_atomically(folder / "there", "1234");
  CHECK(fp::size_of_file(folder / "there") == 4);
  for (const char* none : {"absent", "there/below", ""}) CHECK_FALSE(fp::size_of_file(folder / none));
}
