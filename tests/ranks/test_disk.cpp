// A disk that fills up during a run of several ranks.
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "ranks/job.h"
#include "support/skip.h"

using namespace fp::test;

namespace {

// Returns the space that the files of a folder use on a disk with page-sized blocks, such as a tmpfs.
uintmax_t bytes_on_small_disk(const std::filesystem::path& folder) {
  const auto page = static_cast<uintmax_t>(::sysconf(_SC_PAGESIZE));
  uintmax_t sum = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder))
    if (file.is_regular_file()) sum += (file.file_size() + page - 1) / page * page;
  return sum;
}

// Mounts a small disk that only this process and its children see. Returns false when this user lacks the rights.
bool mount_small_disk(const std::filesystem::path& folder, uintmax_t bytes) {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", folder.c_str(), "tmpfs", 0, fmt::format("size={}", bytes).c_str()) == 0;
}

}  // namespace

TEST_CASE("a full disk does not stop training before the last save", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("gpt");
  const Layout layout{2, 1, 2, 3};
  expect_success(w.train(spec, "whole", layout));
  const uintmax_t save = bytes_on_small_disk(w.run_directory("whole") / "checkpoints" / "step-00000003");
  const auto directory = w.run_directory("full"), small_disk = directory / "checkpoints";
  std::filesystem::create_directories(small_disk);
  // There is space for two checkpoints and half of a third, and only checkpoints are written there: it is a write of
  // the third save that fails, whatever else the run writes meanwhile.
  if (!mount_small_disk(small_disk, save * 5 / 2)) FP_SKIP("mounting takes rights this user lacks");

  Job job(w.train(spec, "full", layout));
  const int code = job.wait();
  CAPTURE(job.output());
  CHECK(code == 3);
  CHECK(job.processes().empty());
  CHECK(job.count("checkpoint of step 9 not saved (earlier ones are intact)") == 1);
  CHECK(job.count("training continues, the next save is due after step 12") == 1);
  CHECK(job.count("checkpoint of step 12 not saved (earlier ones are intact)") == 1);
  CHECK(job.count("error: ") == 2);
  REQUIRE(checkpoints(directory) == std::vector<std::string>{"step-00000003", "step-00000006"});
  expect_success(fptrain({"checkpoint", "verify", directory.string()}));

  REQUIRE(::mount("", small_disk.c_str(), "", MS_REMOUNT, "size=64m") == 0);
  expect_success(w.train(spec, "full", layout));
  CHECK(history(directory) == history(w.run_directory("whole")));
  ::umount(small_disk.c_str());
}
