// Text and files from untrusted sources: limits of memory, and escape sequences on the terminal.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "support/process.h"
#include "support/skip.h"

using Catch::Matchers::Contains;
using fp::test::Outcome;
using fp::test::run;
using fp::test::run_shell;
using fp::test::TemporaryFolder;

namespace {

Outcome in_folder(const TemporaryFolder& folder, const std::string& command) {
  return run_shell("cd '" + folder.path.string() + "' && " + command);
}

// 183 KB that expand to 6 GB of zeros: a Zstandard frame of blocks that repeat one byte 128 Ki times.
[[maybe_unused]] void write_bomb(const std::filesystem::path& file) {
  std::ofstream out(file, std::ios::binary);
  out.write("\x28\xB5\x2F\xFD\x00\x38", 6);
  for (int i = 0; i < 45'775; ++i) out.write("\x02\x00\x10\x00", 4);
  out.write("\x03\x00\x10\x00", 4);
}

// Returns the standard output of a program on a terminal; its errors go to /dev/null.
std::string on_a_terminal(const std::vector<std::string>& arguments) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(terminal >= 0);
  REQUIRE(::grantpt(terminal) == 0);
  REQUIRE(::unlockpt(terminal) == 0);
  const std::string name = ::ptsname(terminal);
  const int side = ::open(name.c_str(), O_RDWR | O_NOCTTY);
  REQUIRE(side >= 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(side, 1);
    ::dup2(::open("/dev/null", O_WRONLY), 2);
    std::vector<char*> argv;
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(side);
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t n; (n = ::read(terminal, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<size_t>(n));
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(terminal);
  CHECK(status == 0);
  return text;
}

bool has_escape(const std::string& text) { return text.find('\x1b') != std::string::npos; }

}  // namespace

TEST_CASE("a small file that expands to gigabytes is refused without exhausting memory") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  FP_SKIP("sanitizers reserve more address space than the limit leaves");
#else
  const TemporaryFolder folder;
  write_bomb(folder / "bomb.jsonl.zst");
  std::filesystem::copy_file(folder / "bomb.jsonl.zst", folder / "bomb.txt.zst");
  const std::string prepare =
      "ulimit -v 1500000 && '" FP_EXECUTABLE "' data prepare --threads 1 --documents line --tokenizer bytes --out d ";
  for (const std::string name : {"bomb.jsonl.zst", "bomb.txt.zst"}) {
    const Outcome o = in_folder(folder, prepare + name);
    INFO(o.output);
    CHECK(o.code == 3);
    CHECK_THAT(o.output, Contains(name + ":1: this line has more than 67108864 bytes; legal: up to --max-document"));
  }
  const Outcome small = in_folder(folder, prepare + "--max-document 1MiB bomb.txt.zst");
  CHECK(small.code == 3);
  CHECK_THAT(small.output, Contains("bomb.txt.zst:1: this line has more than 1048576 bytes"));
  // A limit above the available memory gives an error with the requested size and its purpose.
  const Outcome large = in_folder(folder, prepare + "--max-document 100GB bomb.jsonl.zst");
  INFO(large.output);
  CHECK(large.code == 76);
  CHECK_THAT(large.output, Contains("bomb.jsonl.zst:1: out of memory: ") && Contains(" bytes were requested"));
  CHECK_THAT(large.output, !Contains("internal error"));
  CHECK_FALSE(std::filesystem::exists(folder / "d"));
#endif
}

TEST_CASE("the maximum document size is accepted with and without a unit") {
  const TemporaryFolder folder;
  std::ofstream(folder / "t.txt") << "one\n\n" << std::string(2000, 'x') << "\n";
  const std::string prepare =
      "'" FP_EXECUTABLE "' data prepare --documents blank-line --tokenizer bytes --overwrite --out d --max-document ";
  for (const std::string size : {"2000", "2KB", "2KiB", "1GiB"}) {
    CAPTURE(size);
    CHECK(in_folder(folder, prepare + size + " t.txt").code == 0);
  }
  CHECK(in_folder(folder, prepare + "1999 t.txt").code == 3);
  for (const std::string size : {"0", "-1", "64Mb2", "1e30", "9999999TB"}) {
    CAPTURE(size);
    CHECK(in_folder(folder, prepare + size + " t.txt").code == 2);
  }
}

TEST_CASE("escape sequences in untrusted text are printed visibly, not sent to the terminal") {
  const TemporaryFolder folder;
  for (std::ofstream text(folder / "t.txt"); const char* name : {"a", "b", "c"})
    text << "plain " << name << "\n\x1b[2Jcleared\n";
  REQUIRE(in_folder(folder,
                    "'" FP_EXECUTABLE
                    "' data prepare --tokenizer bytes --out d --documents lines:2 --validation-fraction 0.4 t.txt")
              .code == 0);
  const Outcome inspected = in_folder(folder, "'" FP_EXECUTABLE "' data inspect d");
  CHECK_THAT(inspected.output, Contains("\\x1b[2Jcleared"));
  CHECK_FALSE(has_escape(inspected.output));
  // A dump is exact in a file and escaped on a terminal.
  const std::vector<std::string> dump = {FP_EXECUTABLE, "data", "inspect", folder / "d", "--dump", "validation"};
  CHECK_THAT(run(dump).output, Contains("\n\x1b[2Jcleared\n"));
  const std::string terminal = on_a_terminal(dump);
  CHECK_THAT(terminal, Contains("\\x1b[2Jcleared"));
  CHECK_FALSE(has_escape(terminal));
}

TEST_CASE("errors and the log print escape sequences in names visibly") {
  const TemporaryFolder folder;
  std::ofstream(folder / "t.jsonl") << R"({"text": "x"})"
                                    << "\n";
  const std::string data = "'" FP_EXECUTABLE "' data ";
  for (const std::string& command :
       std::vector<std::string>{data + "prepare --tokenizer bytes --out d \"$(printf 'missing\\033[31m.txt')\"",
                                data + "prepare --tokenizer \"$(printf 'x\\033[31m')\" --out d t.jsonl",
                                "'" FP_EXECUTABLE "' train \"$(printf 'spec\\033[31m.yaml')\"",
                                "'" FP_EXECUTABLE "' generate --checkpoint \"$(printf 'nowhere\\033[31m')\""}) {
    const Outcome o = in_folder(folder, command);
    INFO(command << "\n" << o.output);
    CHECK(o.code != 0);
    CHECK_THAT(o.output, Contains("\\x1b"));
    CHECK_FALSE(has_escape(o.output));
  }
}
