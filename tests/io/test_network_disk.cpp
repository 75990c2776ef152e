// Replies of network file systems that others do not give, simulated by this program's own fsync, rename and link.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "io/filesystem.h"
#include "io/lease.h"
#include "support/temporary_folder.h"

namespace fs = std::filesystem;

namespace {

int sync_of_folders_answers = 0, links_answer = 0;
bool answers_to_renames_are_lost = false;

}  // namespace

extern "C" int fsync(int fd) {
  struct stat info {};
  if (sync_of_folders_answers != 0 && ::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
    errno = sync_of_folders_answers;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  const auto call = [&] { return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0)); };
  if (answers_to_renames_are_lost && call() != 0) return -1;
  return call();
}

extern "C" int link(const char* from, const char* to) noexcept {
  if (links_answer != 0) {
    errno = links_answer;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0));
}

namespace {

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("a file system without fsync for folders can be written to") {
  const fp::test::TemporaryFolder folder;
  for (const int error : {EINVAL, ENOTSUP}) {
    sync_of_folders_answers = error;
    CHECK_NOTHROW(fp::write_file_atomically(folder / "file", std::to_string(error)));
    CHECK_NOTHROW(fp::fsync_path(folder.path));
    CHECK(text_of(folder / "file") == std::to_string(error));
  }
  sync_of_folders_answers = EIO;
  CHECK_THROWS_AS(fp::fsync_path(folder.path), fp::DataError);
  sync_of_folders_answers = 0;
}

TEST_CASE("a rename whose reply was lost counts as done") {
  const fp::test::TemporaryFolder folder;
  answers_to_renames_are_lost = true;
  CHECK_NOTHROW(fp::write_file_atomically(folder / "file", "x"));
  CHECK(text_of(folder / "file") == "x");
  CHECK(fp::rename_path(folder / "file", folder / "other"));
  CHECK_FALSE(fp::rename_path(folder / "absent", folder / "other"));
  CHECK(errno == ENOENT);
  answers_to_renames_are_lost = false;
}

TEST_CASE("a lease needs no hard links") {
  const fp::test::TemporaryFolder folder;
  for (const int error : {EPERM, ENOTSUP}) {
    links_answer = error;
    {
      const fp::Lease lease(folder / "x.lease");
      CHECK_NOTHROW(lease.require());
      CHECK_THROWS_AS(fp::Lease(folder / "x.lease"), fp::DataError);
    }
    CHECK(fs::is_empty(folder.path));
  }
  links_answer = 0;
}
