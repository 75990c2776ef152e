// Tests of reads from a file system with transient and permanent failures.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "io/readable_file.h"
#include "io/retry.h"
#include "support/temporary_folder.h"

using namespace fp;
using Catch::Matchers::Contains;

namespace {

// While it lives, the first `failures` reads fail with this error, and pauses are counted and not waited for.
class FailingReads {
 public:
  FailingReads(int failures, int error) : left_(failures) {
    set_read_call([this, error](int descriptor, void* to, size_t bytes, off_t at) -> ssize_t {
      descriptors.push_back(descriptor);
      if (left_-- <= 0) return ::pread(descriptor, to, bytes, at);
      errno = error;
      return -1;
    });
    set_retry_wait([this](std::chrono::milliseconds time) {
      ++pauses;
      paused += time;
    });
  }
  ~FailingReads() {
    set_read_call({});
    set_retry_wait({});
  }
  FailingReads(const FailingReads&) = delete;
  FailingReads& operator=(const FailingReads&) = delete;

  std::vector<int> descriptors;
  int pauses = 0;
  std::chrono::milliseconds paused{0};

 private:
  int left_;
};

struct Digits {
  fp::test::TemporaryFolder folder;
  std::filesystem::path path = folder / "digits";
  Digits() { std::ofstream(path) << "0123456789"; }
};

std::string read_text(ReadableFile& file, uint64_t at, size_t bytes) {
  std::string text(bytes, '?');
  text.resize(file.read(at, std::as_writable_bytes(std::span(text))));
  return text;
}

template <class E>
std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a file is read at any offset and reads at its end are short") {
  const Digits digits;
  ReadableFile file(digits.path);
  CHECK(read_text(file, 3, 4) == "3456");
  CHECK(read_text(file, 8, 4) == "89");
  CHECK(read_text(file, 20, 4).empty());
}

TEST_CASE("a transient read failure is retried with pauses") {
  const int error = GENERATE(EIO, ESTALE, ETIMEDOUT);
  const Digits digits;
  FailingReads failing(3, error);
  ReadableFile file(digits.path);
  CHECK(read_text(file, 2, 3) == "234");
  CHECK(failing.pauses == 3);
}

TEST_CASE("an interrupted read is repeated at once") {
  const Digits digits;
  FailingReads failing(5, EINTR);
  ReadableFile file(digits.path);
  CHECK(read_text(file, 2, 3) == "234");
  CHECK(failing.pauses == 0);
}

TEST_CASE("a persistent read failure is an infrastructure error that names file, offset and reason") {
  const Digits digits;
  FailingReads failing(1 << 20, EIO);
  ReadableFile file(digits.path);
  const std::string error = error_of<InfrastructureError>([&] { read_text(file, 2, 3); });
  CHECK_THAT(error, Contains("digits: cannot read 3 bytes from byte 2: Input/output error"));
  CHECK(failing.paused > std::chrono::seconds(20));
  CHECK(failing.paused < std::chrono::seconds(120));
}

TEST_CASE("a file with a stale handle is reopened by its path") {
  const Digits digits;
  ReadableFile file(digits.path);
  std::ofstream(digits.folder / "new") << "abcdefghij";
  std::filesystem::rename(digits.folder / "new", digits.path);
  CHECK(read_text(file, 0, 2) == "01");
  FailingReads failing(1, ESTALE);
  CHECK(read_text(file, 0, 2) == "ab");
}

TEST_CASE("a permanent read error is a data error at once") {
  const Digits digits;
  CHECK_THAT(error_of<DataError>([&] { ReadableFile(digits.folder / "absent"); }),
             Contains("absent: cannot open: No such file or directory"));
  CHECK_THAT(error_of<DataError>([&] { facts_of(digits.folder / "absent"); }), Contains("No such file or directory"));
  CHECK_THAT(error_of<DataError>([&] { facts_of(digits.folder.path); }), Contains("is not a regular file"));
  FailingReads failing(1, EISDIR);
  ReadableFile file(digits.path);
  CHECK_THAT(error_of<DataError>([&] { read_text(file, 0, 1); }), Contains("Is a directory"));
  CHECK(failing.pauses == 0);
}

TEST_CASE("the facts of a file change with its size and modification time") {
  const Digits digits;
  const FileFacts before = facts_of(digits.path);
  CHECK(before.bytes == 10);
  CHECK(facts_of(digits.path) == before);
  std::filesystem::last_write_time(digits.path,
                                   std::filesystem::last_write_time(digits.path) + std::chrono::nanoseconds(1000));
  CHECK(facts_of(digits.path).modified_ns == before.modified_ns + 1000);
}
