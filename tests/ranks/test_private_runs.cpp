// Every rank applies run.permissions, also to files that go through the node-local disk.
#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "ranks/job.h"

using namespace fp::test;

TEST_CASE("with run.permissions private, all files of all ranks are readable by the user only", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("gpt"), scratch = w.root() / "scratch", directory = w.run_directory("r");
  std::filesystem::create_directory(scratch);
  REQUIRE(::chmod(scratch.c_str(), 01777) == 0);
  expect_success(w.train(spec, "r", Layout{1, 1, 2, 0},
                         {"--set", "run.permissions=private", "--set", "checkpoint.every=3", "--set",
                          "checkpoint.keep_last=0", "--set", "checkpoint.node_local=" + scratch.string()}));
  int rank_files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    struct stat info {};
    REQUIRE(::lstat(entry.path().c_str(), &info) == 0);
    CAPTURE(entry.path());
    CHECK((info.st_mode & 0077) == 0);
    rank_files += entry.path().filename() == "rank-00001.h5";
  }
  CHECK(rank_files == 4);
  expect_success(fptrain({"checkpoint", "verify", directory.string()}));
  CHECK(std::filesystem::is_empty(scratch));
}
