// The script that starts the programs of a bundle: finding them, and the systems it refuses.
// scripts/bundle-check runs the programs themselves on a bare Debian.
#include <catch2/catch.hpp>

#include "support/process.h"

namespace fp::test {
namespace {

void write_script(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

// A bundle with the real launcher; its program prints its arguments and library path, and ends with exit code 75.
struct Bundle {
  TemporaryFolder folder;
  std::filesystem::path home = folder.path / "a bundle";
  std::filesystem::path path = folder.path / "tools";  // comes first in PATH

  explicit Bundle(const std::string& program = "fptrain") {
    std::string launcher = slurp(FP_SOURCE_DIR "/scripts/bundle-files/launcher");
    const std::string mark = "@GLIBC@";
    REQUIRE(launcher.find(mark) != std::string::npos);
    launcher.replace(launcher.find(mark), mark.size(), "2.36");
    write_script(home / "bin" / program, launcher);
    write_script(home / "runtime/libexec" / program,
                 "#!/bin/sh\nprintf '<%s>' \"$@\" \"${LD_LIBRARY_PATH-unset}\" \"$OPAL_PKGLIBDIR\"\nexit 75\n");
    c_library("echo 'glibc 2.36'");
  }
  // Acts as getconf GNU_LIBC_VERSION.
  void c_library(const std::string& command) { write_script(path / "getconf", "#!/bin/sh\n" + command + "\n"); }

  Outcome start(const std::filesystem::path& program, const std::vector<std::string>& variables = {}) const {
    std::vector<std::string> command = {"/usr/bin/env", "-i", "PATH=" + path.string() + ":/usr/bin:/bin"};
    command.insert(command.end(), variables.begin(), variables.end());
    command.insert(command.end(), {program.string(), "one", "two words"});
    return run(command);
  }
};

TEST_CASE("a bundle's program runs from any folder and through a link, and its exit code is kept") {
  const Bundle bundle;
  const std::string plugins = "<" + (bundle.home / "runtime/lib/openmpi").string() + ">";
  const Outcome direct = bundle.start(bundle.home / "bin/fptrain");
  CHECK(direct.output == "<one><two words><unset>" + plugins);
  CHECK(direct.code == 75);
  std::filesystem::create_symlink(bundle.home / "bin/fptrain", bundle.folder.path / "linked");
  CHECK(bundle.start(bundle.folder.path / "linked").output == direct.output);
}

TEST_CASE("a bundle refuses a C library that is too old with a message") {
  Bundle bundle;
  for (const std::string good : {"2.36", "2.41", "2.40.9000"}) {
    bundle.c_library("echo 'glibc " + good + "'");
    CHECK(bundle.start(bundle.home / "bin/fptrain").code == 75);
  }
  bundle.c_library("echo 'glibc 2.9'");
  const Outcome old = bundle.start(bundle.home / "bin/fptrain");
  CHECK(old.code == 2);
  CHECK(old.output.find("needs glibc 2.36 or newer, and this system has glibc 2.9") != std::string::npos);
  bundle.c_library("exit 1");  // musl's getconf does not know the name
  const Outcome other = bundle.start(bundle.home / "bin/fptrain");
  CHECK(other.code == 2);
  CHECK(other.output.find("another C library") != std::string::npos);
}

TEST_CASE("a bundle leaves LD_LIBRARY_PATH, in which modules put CUDA, unchanged") {
  const Bundle bundle;
  const Outcome started = bundle.start(bundle.home / "bin/fptrain", {"LD_LIBRARY_PATH=/opt/module/lib"});
  CHECK(started.output.find("<two words></opt/module/lib>") != std::string::npos);
}

TEST_CASE("a bundle's mpirun passes the path of the bundle to other nodes") {
  const Bundle bundle("mpirun");
  const Outcome started = bundle.start(bundle.home / "bin/mpirun");
  CHECK(started.output.find("<--prefix><" + bundle.home.string() + "><one><two words>") == 0);
}

}  // namespace
}  // namespace fp::test
