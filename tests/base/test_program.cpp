#include <catch2/catch.hpp>

#include "base/program.h"

using namespace fp;
using namespace std::chrono_literals;

constexpr auto kLong = 24h;  // for programs that end by themselves, however busy the machine

TEST_CASE("run_program captures stdout, stderr and the exit code") {
  CHECK(run_program({"sh", "-c", "echo out; echo err >&2; exit 7"}, kLong) == ProgramOutput{7, "out\n", "err\n"});
  CHECK(run_program({"sh", "-c", "kill -TERM $$"}, kLong)->code == 128 + 15);
  CHECK(run_program({"cat"}, kLong) == ProgramOutput{0, "", ""});  // nothing to read on stdin
  const auto long_one = run_program({"sh", "-c", "yes | head -c 1000000; yes | head -c 500000 >&2"}, kLong);
  REQUIRE(long_one);
  CHECK(long_one->text.size() == 1000000);
  CHECK(long_one->errors.size() == 500000);
}

TEST_CASE("run_program returns nothing for a missing program or one that exceeds its time limit") {
  CHECK(!run_program({"fptrain-no-such-program"}, kLong));
  // If it were not killed, this test would exceed its own time limit.
  CHECK(!run_program({"sleep", "100000"}, 200ms));
}
