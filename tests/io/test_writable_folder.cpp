// Tests that obstacles to a folder are reported in advance and nothing is created.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "base/error.h"
#include "io/writable_folder.h"
#include "support/nobody.h"
#include "support/private_mounts.h"
#include "support/process.h"
#include "support/skip.h"

namespace fs = std::filesystem;
using Catch::Contains;
using fp::test::Nobody;
using fp::test::TemporaryFolder;

namespace {

// Returns the text of the error of this kind; "none" without one.
template <class Error>
std::string refusal(const fs::path& path) {
  try {
    fp::require_folder_possible(path, "the run directory");
  } catch (const Error& e) {
    return e.what();
  }
  return "none";
}

std::string mistake(const fs::path& path) { return refusal<fp::ConfigError>(path); }
std::string disk_refusal(const fs::path& path) { return refusal<fp::DataError>(path); }

}  // namespace

TEST_CASE("an existing or creatable folder passes the check and nothing is created") {
  const TemporaryFolder folder;
  CHECK(mistake(folder.path) == "none");
  CHECK(mistake(folder.path / "a" / "b" / "c") == "none");
  CHECK(mistake(folder.path / "a" / ".." / "b") == "none");
  CHECK(fs::is_empty(folder.path));
}

TEST_CASE("a file or dangling symbolic link in the path of a folder is named") {
  const TemporaryFolder folder;
  const fs::path file = folder.path / "file";
  std::ofstream(file) << "text";
  CHECK(mistake(file) == file.string() + ": cannot use the run directory: Not a directory");
  CHECK(mistake(file / "run") ==
        (file / "run").string() + ": cannot create the run directory: " + file.string() + ": Not a directory");
  CHECK_THAT(mistake(folder.path / std::string(300, 'x')), Contains("File name too long"));
  fs::create_symlink(folder.path / "nowhere", folder.path / "link");
  CHECK_THAT(mistake(folder.path / "link" / "run"),
             Contains("cannot create the run directory: " + (folder.path / "link").string() + ": File exists"));
}

TEST_CASE("a folder without write permission is named and is not a configuration error") {
  const TemporaryFolder folder;
  ::chmod(folder.path.c_str(), 0555);
  std::string there, below, hidden;
  {
    const Nobody nobody;
    there = disk_refusal(folder.path);
    below = disk_refusal(folder.path / "a" / "b");
  }
  ::chmod(folder.path.c_str(), 0);
  {
    const Nobody nobody;
    hidden = disk_refusal(folder.path / "a");
  }
  ::chmod(folder.path.c_str(), 0755);
  CHECK(there == folder.path.string() + ": cannot use the run directory: Permission denied");
  CHECK(hidden == (folder.path / "a").string() + ": cannot create the run directory: " + folder.path.string() +
                      ": Permission denied");
  CHECK(below == (folder.path / "a" / "b").string() + ": cannot create the run directory: " + folder.path.string() +
                     ": Permission denied");
}

TEST_CASE("a file system that is mounted read-only is named") {
  const TemporaryFolder folder;
  const fp::test::ReadOnlyFolder disk(folder.path);
  if (!disk.read_only()) FP_SKIP("mounting takes rights this user lacks");
  const std::string there = disk_refusal(folder.path), below = disk_refusal(folder.path / "a" / "b");
  CHECK(there == folder.path.string() + ": cannot use the run directory: Read-only file system");
  CHECK(below == (folder.path / "a" / "b").string() + ": cannot create the run directory: " + folder.path.string() +
                     ": Read-only file system");
}

TEST_CASE("a required folder that does not exist is refused") {
  const TemporaryFolder folder;
  fp::require_writable_folder(folder.path, "it");
  CHECK_THROWS_AS(fp::require_writable_folder(folder.path / "a", "it"), fp::ConfigError);
  CHECK(fs::is_empty(folder.path));
}
