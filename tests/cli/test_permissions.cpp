// run.permissions: the modes of all files of a run.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <set>

#include "cli/workspace.h"

using namespace fp::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

// Returns the files and folders of a run whose modes differ from these, with their modes.
std::string wrong_modes(const fs::path& run_directory, mode_t folder, mode_t file) {
  std::string wrong;
  const auto look = [&](const fs::path& path) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) return;
    const mode_t mode = info.st_mode & 0777;  // a folder may inherit that of its group
    if (mode != (S_ISDIR(info.st_mode) ? folder : file)) wrong += fmt::format("{} {:o}\n", path.string(), mode);
  };
  look(run_directory);
  for (const auto& entry : fs::recursive_directory_iterator(run_directory)) look(entry.path());
  return wrong;
}

// Runs a command under this umask.
Outcome run_under(const std::string& mask, const std::vector<std::string>& command) {
  std::vector<std::string> all{"/bin/sh", "-c", "umask " + mask + " && exec \"$@\"", "sh"};
  all.insert(all.end(), command.begin(), command.end());
  return run(all);
}

const std::vector<std::string> kShort{"--set", "train.steps=4", "--set", "checkpoint.every=2",
                                      "--set", "eval.every=0",  "--set", "logging.report=true"};

std::vector<std::string> with_permissions(const std::string& permissions) {
  std::vector<std::string> more = kShort;
  more.insert(more.end(), {"--set", "run.permissions=" + permissions});
  return more;
}

}  // namespace

TEST_CASE("all files of a run have the modes of run.permissions", "[cli]") {
  const Workspace w;
  const fs::path spec = w.spec("gpt", "fp32");
  struct Case {
    std::string permissions, mask;
    mode_t folder, file;
  };
  for (const Case& c : {Case{"private", "0", 0700, 0600}, Case{"group", "0077", 0750, 0640},
                        Case{"umask", "0022", 0755, 0644}, Case{"umask", "0007", 0770, 0660}}) {
    CAPTURE(c.permissions, c.mask);
    const std::string name = c.permissions + c.mask;
    const Outcome o = run_under(c.mask, w.train(spec, name, with_permissions(c.permissions)));
    CAPTURE(o.output);
    REQUIRE(o.code == 0);
    const fs::path directory = w.run_directory(name);
    for (const char* file : {"config.yaml", "log.txt", "metrics.jsonl", "report.html", "report.json",
                             "checkpoints/step-00000002/rank-00000.h5", "checkpoints/step-00000004/index.h5"})
      CHECK(fs::exists(directory / file));
    CHECK(wrong_modes(directory, c.folder, c.file).empty());
    CHECK(run_under("0", fptrain({"report", directory.string()})).code == 0);
    CHECK(wrong_modes(directory, c.folder, c.file).empty());
  }
}

TEST_CASE("a run that becomes private closes its directory and logs it", "[cli]") {
  const Workspace w;
  const fs::path spec = w.spec("gpt", "fp32"), directory = w.run_directory("r");
  REQUIRE(run_under("0022", w.train(spec, "r", kShort)).code == 0);
  const Outcome o = run_under("0022", w.train(spec, "r", with_permissions("private")));
  CAPTURE(o.output);
  CHECK(o.code == 0);
  CHECK_THAT(o.output, Contains(directory.string() + ": its mode was 0755 and is 0700 now"));
  struct stat info {};
  REQUIRE(::stat(directory.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
}

TEST_CASE("an illegal run.permissions is refused with the legal values", "[cli]") {
  const Workspace w;
  const Outcome o = run(w.train(w.spec("gpt", "fp32"), "r", with_permissions("secret")));
  CHECK(o.code == 2);
  CHECK_THAT(o.output, Contains("run.permissions") && Contains("private"));
}
