// Output in the making, and what is left of it where a process is killed.
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <set>

#include "data/pending.h"
#include "support.h"

using namespace fp;
using fp_test::TempDir;
using fp_test::write_text;
namespace fs = std::filesystem;

namespace {

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A process that has begun to make `target`, and waits.
pid_t begun_by_another(const fs::path& target) {
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const PendingFolder folder(target);
    write_text(folder.path() / "half", "x");
    if (::write(ready[1], "x", 1) == 1) ::pause();
    ::_exit(1);
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  ::close(ready[0]);
  ::close(ready[1]);
  return child;
}

bool folders_are_exchanged = true;

}  // namespace

// A file system that may know only the plain rename, as NFS.
extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  if (flags != 0 && !folders_are_exchanged) {
    errno = EINVAL;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

TEST_CASE("where folders cannot be exchanged, one that is there is never taken away") {
  const TempDir dir;
  const fs::path target = dir / "data";
  folders_are_exchanged = false;
  {
    PendingFolder folder(target);
    write_text(folder.path() / "first", "1");
    folder.publish();
  }
  try {
    const PendingFolder second(target);
    FAIL("begun");
  } catch (const DataError& e) {
    CHECK_THAT(e.what(), Catch::Contains("is there already, and this file system cannot exchange two folders"));
  }
  folders_are_exchanged = true;
  CHECK(names_in(dir.path()) == std::set<std::string>{"data"});
  CHECK(text_of(target / "first") == "1");
}

TEST_CASE("what a killed process has left of a folder goes with the next attempt, not before") {
  const TempDir dir;
  const fs::path target = dir / "data";
  for (const char* not_ours : {"data.tmp.mine", "data2.tmp.1"}) fs::create_directory(dir / not_ours);
  const pid_t child = begun_by_another(target);
  std::set<std::string> with_child = names_in(dir.path());
  CHECK(with_child.size() == 4);  // its folder, and the lease on it
  { const PendingFolder mine(target); }
  CHECK(names_in(dir.path()) == with_child);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(names_in(dir.path()) == with_child);
  {
    PendingFolder mine(target);
    write_text(mine.path() / "whole", "y");
    mine.publish();
  }
  CHECK(names_in(dir.path()) == std::set<std::string>{"data", "data.tmp.mine", "data2.tmp.1"});
}

TEST_CASE("a folder that is published takes the place of an older one") {
  const TempDir dir;
  const fs::path target = dir / "data";
  for (const std::string text : {"old", "new"}) {
    PendingFolder folder(target);
    write_text(folder.path() / text, text);
    folder.publish();
  }
  CHECK(names_in(dir.path()) == std::set<std::string>{"data"});
  CHECK(names_in(target) == std::set<std::string>{"new"});
  CHECK(text_of(target / "new") == "new");
}
