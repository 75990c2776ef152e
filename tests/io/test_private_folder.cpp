// Tests of private folders in places where others may write, and of attacks on them.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <set>

#include "base/error.h"
#include "io/filesystem.h"
#include "io/private_folder.h"
#include "support/nobody.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

namespace fs = std::filesystem;
using fp::PrivateFolder;
using fp::test::Nobody;
using fp::test::TemporaryFolder;

namespace {

const std::string kSomeDigits(32, 'a');

mode_t mode_of(const fs::path& path) {
  struct stat info {};
  REQUIRE(::lstat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

std::set<std::string> entries_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

void put(const fs::path& file) { fp::write_file_atomically(file, "x"); }

fs::path make(const fs::path& folder, mode_t mode) {
  REQUIRE(::mkdir(folder.c_str(), 0700) == 0);
  REQUIRE(::chmod(folder.c_str(), mode) == 0);
  return folder;
}

void remove_left(const fs::path& base) {
  fp::remove_left_folders(
      base, [](const std::string& name) { return name.starts_with("mine-"); },
      [](const std::string& name) { return name.starts_with("rank-"); });
}

}  // namespace

TEST_CASE("a private folder is new, accessible to this user only and removed with its files") {
  const TemporaryFolder base;
  REQUIRE(::chmod(base.path.c_str(), 01777) == 0);
  {
    PrivateFolder one(base.path, "mine-"), two(base.path, "mine-");
    CHECK(one.path() != two.path());
    CHECK(one.path().filename().string().size() == 5 + kSomeDigits.size());
    CHECK(mode_of(one.path()) == 0700);
    put(one.inside("rank-1"));
    CHECK(fs::exists(one.path() / "rank-1"));
    put(two.path() / "not ours");
    if (::geteuid() == 0) {
      const Nobody nobody;
      CHECK(::open(one.path().c_str(), O_RDONLY) < 0);
      CHECK(::open((one.path() / "rank-1").c_str(), O_RDONLY) < 0);
    }
    // A locked folder is in use, even for its own process.
    remove_left(base.path);
    CHECK(fs::exists(one.path() / "rank-1"));
    one.remove();
    CHECK_FALSE(fs::exists(one.path()));
  }
  CHECK(entries_in(base.path).size() == 1);  // the one with another user's file
}

TEST_CASE("a folder that others put in place of a private folder is never accessed") {
  const TemporaryFolder base;
  put(make(base / "victim", 0755) / "rank-1");
  {
    PrivateFolder mine(base.path, "mine-");
    fs::rename(mine.path(), base / "moved");
    fs::create_directory_symlink(base / "victim", mine.path());
    put(mine.inside("rank-1"));
    put(mine.inside("rank-2"));
    CHECK(entries_in(base / "moved") == std::set<std::string>{"rank-1", "rank-2"});
  }
  CHECK(entries_in(base / "victim") == std::set<std::string>{"rank-1"});
  CHECK(entries_in(base / "moved").empty());
}

TEST_CASE("an unsuitable base for private folders is refused") {
  const TemporaryFolder base;
  put(base / "file");
  CHECK_THROWS_AS(PrivateFolder(base / "file", "mine-"), fp::ConfigError);
  CHECK_THROWS_WITH(PrivateFolder(base / "nowhere", "mine-"), Catch::Contains("no such folder"));
  make(base / "closed", 0555);
  REQUIRE(::chmod(base.path.c_str(), 0755) == 0);
  const Nobody nobody;
  CHECK_THROWS_WITH(PrivateFolder(base / "closed", "mine-"), Catch::Contains("cannot create the folder: Permission"));
}

TEST_CASE("only this user's own private folders of killed processes are removed") {
  const TemporaryFolder base;
  const fs::path victim = make(base / "victim", 0700);
  put(victim / "rank-1");
  put(make(base / "mine-left", 0700) / "rank-1");
  put(make(base / "mine-full", 0700) / "rank-1");
  put(base / "mine-full" / "notes");
  put(make(base / "mine-open", 0777) / "rank-1");
  put(make(base / "mine-used", 0700) / "rank-1");
  put(make(base / "other-left", 0700) / "rank-1");
  put(base / "mine-file");
  fs::create_directory_symlink(victim, base / "mine-link");
  // Another open file description of the folder, as in another process.
  const fp::FileDescriptor used(::open((base / "mine-used").c_str(), O_RDONLY | O_DIRECTORY));
  REQUIRE(::flock(used.get(), LOCK_EX) == 0);
  remove_left(base.path);
  CHECK(entries_in(base.path) ==
        std::set<std::string>{"mine-file", "mine-full", "mine-link", "mine-open", "mine-used", "other-left", "victim"});
  CHECK(entries_in(base / "mine-full") == std::set<std::string>{"notes"});
  for (const char* folder : {"victim", "mine-open", "mine-used", "other-left"})
    CHECK(fs::exists(base / folder / "rank-1"));
}

TEST_CASE("folders planted by another user are left alone") {
  if (::geteuid() != 0) FP_SKIP("planting as another user takes root");
  const TemporaryFolder base;
  REQUIRE(::chmod(base.path.c_str(), 0777) == 0);
  put(make(base / "victim", 0700) / "rank-1");
  {
    const Nobody nobody;
    fs::create_directory_symlink(base / "victim", base / "mine-link");
    put(make(base / "mine-theirs", 0700) / "rank-1");
    put(make(base / "mine-wide", 0777) / "rank-1");
  }
  remove_left(base.path);
  for (const char* folder : {"victim", "mine-theirs", "mine-wide"}) CHECK(fs::exists(base / folder / "rank-1"));
}
