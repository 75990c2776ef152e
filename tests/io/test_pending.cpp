// Tests of pending output, and of its remains when a process is killed.
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <set>

#include "data/support.h"
#include "io/pending.h"

using namespace fp;
using fp::test::TemporaryFolder;
using fp::test::write_text;
namespace fs = std::filesystem;

namespace {

std::set<std::string> names_of_entries(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

std::string content_of_file(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Starts a process that creates a PendingFolder for `target` and then waits.
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

// Simulates a file system that may support only the plain rename, as NFS.
extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  if (flags != 0 && !folders_are_exchanged) {
    errno = EINVAL;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

TEST_CASE("an existing folder is never removed where folders cannot be exchanged") {
  const TemporaryFolder dir;
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
    CHECK_THAT(e.what(), Catch::Contains("exists already, and this file system cannot exchange two folders"));
  }
  folders_are_exchanged = true;
  CHECK(names_of_entries(dir.path) == std::set<std::string>{"data"});
  CHECK(content_of_file(target / "first") == "1");
}

TEST_CASE("the next attempt removes the temporary folder of a killed process") {
  const TemporaryFolder dir;
  const fs::path target = dir / "data";
  for (const char* not_ours : {"data.tmp.mine", "data2.tmp.1"}) fs::create_directory(dir / not_ours);
  const pid_t child = begun_by_another(target);
  std::set<std::string> with_child = names_of_entries(dir.path);
  CHECK(with_child.size() == 4);  // with its folder and the lease on it
  { const PendingFolder mine(target); }
  CHECK(names_of_entries(dir.path) == with_child);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(names_of_entries(dir.path) == with_child);
  {
    PendingFolder mine(target);
    write_text(mine.path() / "whole", "y");
    mine.publish();
  }
  CHECK(names_of_entries(dir.path) == std::set<std::string>{"data", "data.tmp.mine", "data2.tmp.1"});
}

TEST_CASE("a published folder replaces an older one") {
  const TemporaryFolder dir;
  const fs::path target = dir / "data";
  for (const std::string text : {"old", "new"}) {
    PendingFolder folder(target);
    write_text(folder.path() / text, text);
    folder.publish();
  }
  CHECK(names_of_entries(dir.path) == std::set<std::string>{"data"});
  CHECK(names_of_entries(target) == std::set<std::string>{"new"});
  CHECK(content_of_file(target / "new") == "new");
}

TEST_CASE("the temporary name of a pending file is unpredictable") {
  const TemporaryFolder dir;
  write_text(dir / "victim", "theirs");
  // The name that a process of this id once gave its temporary file.
  fs::create_symlink(dir / "victim", dir / fmt::format("shard.bin.tmp.{}", ::getpid()));
  {
    PendingFile file(dir / "shard.bin");
    const std::string text = "ours";
    file.write(std::as_bytes(std::span(text)));
    file.publish();
  }
  CHECK(content_of_file(dir / "victim") == "theirs");
  CHECK(content_of_file(dir / "shard.bin") == "ours");
  CHECK(fs::symlink_status(dir / "shard.bin").type() == fs::file_type::regular);
  CHECK(fs::is_symlink(dir / fmt::format("shard.bin.tmp.{}", ::getpid())));
}
