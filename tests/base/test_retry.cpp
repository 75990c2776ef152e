// Reading from a file system that fails for a moment, or for good. A link to the memory of this process is a file whose
// first bytes cannot be read (EIO), without any other trick.
#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "base/filesystem.h"
#include "base/retry.h"
#include "support/temporary_folder.h"

namespace fs = std::filesystem;

namespace {

// No wait takes any time here; what is waited for may be mended meanwhile.
struct PlayedWaits {
  std::vector<int64_t> ms;
  explicit PlayedWaits(std::function<void(size_t)> at_wait = {}) {
    fp::set_retry_wait([this, at_wait = std::move(at_wait)](std::chrono::milliseconds time) {
      ms.push_back(time.count());
      if (at_wait) at_wait(ms.size());
    });
  }
  ~PlayedWaits() { fp::set_retry_wait({}); }
};

}  // namespace

TEST_CASE("a file that cannot be read for a moment is read when it can be") {
  const fp::testing::TemporaryFolder folder;
  const auto break_it = [&] {
    fs::remove(folder / "file");
    fs::create_symlink("/proc/self/mem", folder / "file");
  };
  const PlayedWaits waits([&](size_t n) {
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

TEST_CASE("a file that cannot be read for a minute is a failure of the infrastructure, not of the data") {
  const fp::testing::TemporaryFolder folder;
  fs::create_symlink("/proc/self/mem", folder / "file");
  const PlayedWaits waits;
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

TEST_CASE("what an error of reading says") {
  const fp::testing::TemporaryFolder folder;
  fp::write_file_atomically(folder / "there", "x");
  fs::create_symlink(folder / "nowhere", folder / "link");
  using fp::fail_reading;
  for (const int error : {EIO, ESTALE, ETIMEDOUT, EINTR, EAGAIN})
    CHECK_THROWS_AS(fail_reading("open", folder / "there", error), fp::InfrastructureError);
  // A client that remembers too long that there was no such file.
  CHECK_THROWS_AS(fail_reading("open", folder / "there", ENOENT), fp::InfrastructureError);
  for (const char* absent : {"absent", "absent/below", "link"})
    CHECK_THROWS_AS(fail_reading("open", folder / absent, ENOENT), fp::DataError);
  CHECK_THROWS_AS(fail_reading("open", folder / "there", EACCES), fp::AccessError);
  CHECK_THROWS_AS(fail_reading("open", folder / "there", ELOOP), fp::DataError);
}

TEST_CASE("the size of a file that is there") {
  const fp::testing::TemporaryFolder folder;
  fp::write_file_atomically(folder / "there", "1234");
  CHECK(fp::size_of_file(folder / "there") == 4);
  for (const char* none : {"absent", "there/below", ""}) CHECK_FALSE(fp::size_of_file(folder / none));
}
