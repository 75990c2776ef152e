// Tests of creating and appending to files where others may have planted something.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/random_digits.h"
#include "base/work_queue.h"
#include "io/filesystem.h"
#include "io/log_file.h"
#include "io/new_file.h"
#include "support/temporary_folder.h"

namespace fs = std::filesystem;
using fp::test::TemporaryFolder;

TEST_CASE("random digits are 32 hex digits and differ every time") {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string digits = fp::random_digits();
    CHECK(digits.size() == 32);
    CHECK(digits.find_first_not_of("0123456789abcdef") == std::string::npos);
    seen.insert(digits);
  }
  CHECK(seen.size() == 1000);
}

TEST_CASE("a symbolic link planted at a predictable name is never written through") {
  const TemporaryFolder folder;
  fp::write_file_atomically(folder / "victim", "theirs");
  // The name that a process of this id once gave its temporary file.
  fs::create_symlink(folder / "victim", folder / fmt::format("report.json.tmp.{}", ::getpid()));
  fs::create_symlink(folder / "victim", folder / "report.json");
  fp::write_file_atomically(folder / "report.json", "ours");
  CHECK(fp::read_file(folder / "victim") == "theirs");
  CHECK(fp::read_file(folder / "report.json") == "ours");
  CHECK(fs::symlink_status(folder / "report.json").type() == fs::file_type::regular);
  CHECK(fp::temporary_beside(folder / "report.json") != fp::temporary_beside(folder / "report.json"));
}

TEST_CASE("create_file refuses existing files and dangling symbolic links") {
  const TemporaryFolder folder;
  fp::write_file_atomically(folder / "there", "x");
  fs::create_symlink(folder / "nowhere", folder / "link");
  for (const char* name : {"there", "link", "missing/file"})
    CHECK_THROWS_WITH(fp::create_file(folder / name), Catch::Contains(fmt::format("{}: cannot create: ", name)));
  CHECK_FALSE(fs::exists(folder / "nowhere"));
  CHECK(fp::read_file(folder / "there") == "x");
  CHECK(::write(fp::create_file(folder / "new").get(), "y", 1) == 1);
  CHECK(fp::read_file(folder / "new") == "y");
}

TEST_CASE("open_to_append refuses symbolic links and anything but a regular file") {
  const TemporaryFolder folder;
  fp::write_file_atomically(folder / "victim", "theirs");
  fs::create_symlink(folder / "victim", folder / "link");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(fp::open_to_append(folder / "link"), Catch::Contains("link: is a symbolic link"));
  CHECK_THROWS_WITH(fp::open_to_append(folder / "pipe"), Catch::Contains("pipe: is not a regular file"));
  const fp::FileDescriptor reader(::open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK));
  CHECK_THROWS_WITH(fp::open_to_append(folder / "pipe"), Catch::Contains("pipe: is not a regular file"));
  CHECK_THROWS_WITH(fp::open_to_append(folder / "."), Catch::Contains("cannot open for writing"));
  for (const char* text : {"one ", "two"}) {
    const fp::FileDescriptor file = fp::open_to_append(folder / "file");
    CHECK(::write(file.get(), text, 3 + (text[0] == 'o')) > 0);
  }
  CHECK(fp::read_file(folder / "file") == "one two");
}

TEST_CASE("a log file that is a symbolic link is not written and warned about once") {
  const TemporaryFolder folder;
  fp::write_file_atomically(folder / "victim", "theirs");
  fs::create_symlink(folder / "victim", folder / "log.txt");
  fp::log_to_file(folder / "log.txt");
  fp::log::warning("a line");
  fp::log_to_file(folder / "other.txt");
  fp::log::warning("another line");
  fp::log::tee_to(fp::FileDescriptor());
  CHECK(fp::read_file(folder / "victim") == "theirs");
  CHECK_THAT(fp::read_file(folder / "other.txt"), Catch::Contains("another line\n"));
}

TEST_CASE("an error-only log file is created at the first error") {
  const TemporaryFolder folder;
  fp::log_errors_to_file(folder / "log.txt");
  fp::log::warning("a warning");
  CHECK(fp::log::flush(fp::WorkQueue::kPatience));
  CHECK_FALSE(fs::exists(folder / "log.txt"));
  fp::log::error("an error");
  fp::log::error("another");
  fp::log_errors_to_file(folder / "missing" / "log.txt");
  fp::log::error("an error that only stderr shows");
  fp::log::tee_to(fp::FileDescriptor());
  CHECK_THAT(fp::read_file(folder / "log.txt"), Catch::Matches(".* error: an error\n.* error: another\n"));
}
