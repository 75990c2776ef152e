// CoreTurns: when a thread gives up a core that it shares. The clock and the system's counts are given.
#include <catch2/catch.hpp>

#include "base/core_turns.h"

using namespace fp;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

// A thread on a system with a tick of 4 ms, and how often it had to leave its core.
struct Turns {
  CoreTurns turns{milliseconds(4)};
  CoreTurns::Clock::time_point now{std::chrono::hours(1)};
  int64_t times_off = 0;

  // Works for so long, and then asks whether the turn ends soon.
  bool after(CoreTurns::Clock::duration work) {
    now += work;
    return turns.is_due(now) && turns.ends_soon(now, times_off);
  }
  // Another program gets the core for so long.
  bool after_off(CoreTurns::Clock::duration off) {
    ++times_off;
    return after(off);
  }
};

}  // namespace

TEST_CASE("a thread that has its core to itself gives up no turn") {
  Turns t;
  for (int i = 0; i < 1000; ++i) CHECK_FALSE(t.after(microseconds(300)));
  CHECK_FALSE(t.turns.shares_core());
  // Nor for what the system itself needs a core for now and then.
  for (int i = 0; i < 10; ++i) {
    CHECK_FALSE(t.after_off(milliseconds(1)));
    for (int k = 0; k < 200; ++k) CHECK_FALSE(t.after(microseconds(300)));
    CHECK_FALSE(t.turns.shares_core());
  }
}

TEST_CASE("a thread that shares its core gives up each turn once, shortly before a tick") {
  Turns t;
  t.after_off(milliseconds(4));
  t.after(milliseconds(4));
  CHECK_FALSE(t.after_off(milliseconds(4)));
  CHECK(t.turns.shares_core());
  for (int turn = 0; turn < 5; ++turn) {
    CAPTURE(turn);
    CHECK_FALSE(t.after(microseconds(3300)));
    CHECK(t.after(microseconds(200)));
    CHECK_FALSE(t.after(microseconds(200)));  // the other program did not get the core: the turn goes on
    CHECK_FALSE(t.after_off(milliseconds(4)));
  }
  t.turns.reset(t.now, t.times_off);  // as on another core
  CHECK_FALSE(t.turns.shares_core());
  CHECK_FALSE(t.after(milliseconds(4)));
  CHECK_FALSE(t.after_off(milliseconds(4)));
  CHECK_FALSE(t.turns.shares_core());
}

TEST_CASE("a core is not shared any more after some turns without another program") {
  Turns t;
  t.after_off(milliseconds(4));
  t.after_off(milliseconds(4));
  REQUIRE(t.turns.shares_core());
  for (int i = 0; i < 27; ++i) t.after(milliseconds(1));
  CHECK(t.turns.shares_core());
  t.after(milliseconds(2));
  CHECK_FALSE(t.turns.shares_core());
}
