// What is in the way of a folder is said before anything is done, and nothing is made.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "base/error.h"
#include "base/writable_folder.h"
#include "support/nobody.h"
#include "support/process.h"

namespace fs = std::filesystem;
using Catch::Contains;
using fp::testing::Nobody;
using fp::testing::TemporaryFolder;

namespace {

std::string refusal(const fs::path& path) {
  try {
    fp::require_folder_possible(path, "the run directory");
  } catch (const fp::ConfigError& e) {
    return e.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("a folder that is there, or can be made, is possible, and is not made") {
  const TemporaryFolder folder;
  CHECK(refusal(folder.path) == "none");
  CHECK(refusal(folder.path / "a" / "b" / "c") == "none");
  CHECK(refusal(folder.path / "a" / ".." / "b") == "none");
  CHECK(fs::is_empty(folder.path));
}

TEST_CASE("a file or a link to nowhere in the way of a folder is named") {
  const TemporaryFolder folder;
  const fs::path file = folder.path / "file";
  std::ofstream(file) << "text";
  CHECK(refusal(file) == file.string() + ": cannot use the run directory: Not a directory");
  CHECK(refusal(file / "run") ==
        (file / "run").string() + ": cannot create the run directory: " + file.string() + ": Not a directory");
  CHECK_THAT(refusal(folder.path / std::string(300, 'x')), Contains("File name too long"));
  fs::create_symlink(folder.path / "nowhere", folder.path / "link");
  CHECK_THAT(refusal(folder.path / "link" / "run"),
             Contains("cannot create the run directory: " + (folder.path / "link").string() + ": File exists"));
}

TEST_CASE("a folder that may not be written to is named") {
  const TemporaryFolder folder;
  ::chmod(folder.path.c_str(), 0555);
  std::string there, below, hidden;
  {
    const Nobody nobody;
    there = refusal(folder.path);
    below = refusal(folder.path / "a" / "b");
  }
  ::chmod(folder.path.c_str(), 0);
  {
    const Nobody nobody;
    hidden = refusal(folder.path / "a");
  }
  ::chmod(folder.path.c_str(), 0755);
  CHECK(there == folder.path.string() + ": cannot use the run directory: Permission denied");
  CHECK(hidden == (folder.path / "a").string() + ": cannot create the run directory: " + folder.path.string() +
                      ": Permission denied");
  CHECK(below == (folder.path / "a" / "b").string() + ": cannot create the run directory: " + folder.path.string() +
                     ": Permission denied");
}

TEST_CASE("a folder that has to be there is refused where it is not") {
  const TemporaryFolder folder;
  fp::require_writable_folder(folder.path, "it");
  CHECK_THROWS_AS(fp::require_writable_folder(folder.path / "a", "it"), fp::ConfigError);
  CHECK(fs::is_empty(folder.path));
}
