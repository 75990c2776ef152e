#include <catch2/catch.hpp>

#include "base/program.h"

using namespace fp;
using namespace std::chrono_literals;

TEST_CASE("a program's output, its errors and how it ended") {
  CHECK(run_program({"sh", "-c", "echo out; echo err >&2; exit 7"}, 10s) == ProgramOutput{7, "out\n", "err\n"});
  CHECK(run_program({"sh", "-c", "kill -TERM $$"}, 10s)->code == 128 + 15);
  CHECK(run_program({"cat"}, 10s) == ProgramOutput{0, "", ""});  // nothing to read on stdin
  const auto long_one = run_program({"sh", "-c", "yes | head -c 1000000; yes | head -c 500000 >&2"}, 20s);
  REQUIRE(long_one);
  CHECK(long_one->text.size() == 1000000);
  CHECK(long_one->errors.size() == 500000);
}

TEST_CASE("a program that is not there or takes too long is nothing") {
  CHECK(!run_program({"fptrain-no-such-program"}, 10s));
  const auto start = std::chrono::steady_clock::now();
  CHECK(!run_program({"sleep", "60"}, 200ms));
  CHECK(std::chrono::steady_clock::now() - start < 20s);
}
