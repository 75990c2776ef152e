// The modes of a run's folders, whatever the process's umask.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "base/error.h"
#include "io/filesystem.h"
#include "support/skip.h"
#include "support/temporary_folder.h"
#include "train/permissions.h"

namespace fs = std::filesystem;
using namespace fp;
using fp::test::TemporaryFolder;

namespace {

// Sets the umask and restores the previous one.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(::umask(mask)) {}
  ~Umask() { ::umask(before_); }
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;

 private:
  mode_t before_;
};

mode_t mode_of(const fs::path& path) {
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

RunSpec spec_with(Permissions permissions) {
  RunSpec spec;
  spec.run.permissions = permissions;
  return spec;
}

}  // namespace

TEST_CASE("run folders and files have the modes of run.permissions, parents the umask's") {
  struct Case {
    Permissions permissions;
    std::string text;
    mode_t folder, file;
  };
  for (const Case& c : {Case{Permissions::owner, "0077", 0700, 0600}, Case{Permissions::group, "0027", 0750, 0640}}) {
    CAPTURE(name_of(c.permissions));
    const TemporaryFolder base;
    const Umask guard(0022);
    const RunSpec spec = spec_with(c.permissions);
    apply_permissions(spec);
    make_run_folder(spec, base / "runs/mine/");
    make_run_folder(spec, base / "runs/mine/checkpoints");
    write_file_atomically(base / "runs/mine/file", "x");
    CHECK(mode_of(base / "runs") == 0755);
    CHECK(mode_of(base / "runs/mine") == c.folder);
    CHECK(mode_of(base / "runs/mine/checkpoints") == c.folder);
    CHECK(mode_of(base / "runs/mine/file") == c.file);
    CHECK(umask_text(spec) == c.text);
  }
}

TEST_CASE("by default a run folder follows the umask, and an existing one keeps its mode") {
  const TemporaryFolder base;
  const RunSpec spec = spec_with(Permissions::umask);
  for (const mode_t mask : {mode_t{0022}, mode_t{0002}, mode_t{0077}}) {
    const Umask guard(mask);
    apply_permissions(spec);
    const fs::path folder = base / fmt::format("{:o}", mask);
    make_run_folder(spec, folder);
    write_file_atomically(folder / "file", "x");
    CHECK(mode_of(folder) == (0777 & ~mask));
    CHECK(mode_of(folder / "file") == (0666 & ~mask));
    REQUIRE(::chmod(folder.c_str(), 02770) == 0);
    make_run_folder(spec, folder);
    CHECK(mode_of(folder) == 02770);
  }
  CHECK(umask_text(spec).empty());
}

TEST_CASE("an existing run folder gets the mode of run.permissions and keeps its setgid bit") {
  const TemporaryFolder base;
  const Umask guard(0022);
  REQUIRE(::chmod(base.path.c_str(), 02775) == 0);
  make_run_folder(spec_with(Permissions::owner), base.path);
  CHECK(mode_of(base.path) == 02700);
  make_run_folder(spec_with(Permissions::group), base.path);
  CHECK(mode_of(base.path) == 02750);
}

TEST_CASE("another user's folder that is more open than run.permissions is refused") {
  if (::geteuid() != 0) FP_SKIP("giving a folder away takes root");
  const TemporaryFolder base;
  REQUIRE(::chmod(base.path.c_str(), 0770) == 0);
  if (::chown(base.path.c_str(), 65534, 65534) != 0) FP_SKIP("this root may not give folders away");
  CHECK_THROWS_AS(make_run_folder(spec_with(Permissions::owner), base.path), ConfigError);
  CHECK_THROWS_WITH(make_run_folder(spec_with(Permissions::group), base.path),
                    Catch::Contains("belongs to another user") && Catch::Contains("run.permissions = umask"));
  CHECK_NOTHROW(make_run_folder(spec_with(Permissions::umask), base.path));
  CHECK(mode_of(base.path) == 0770);
}

TEST_CASE("files written without the run spec are never more open than the run folder") {
  const TemporaryFolder base;
  const Umask guard(0022);
  REQUIRE(::chmod(base.path.c_str(), 0750) == 0);
  write_as_private_as(base.path);
  write_file_atomically(base / "report.html", "x");
  CHECK(mode_of(base / "report.html") == 0640);
}
