#include "base/core_turns.h"

#include <sched.h>
#include <sys/resource.h>

#include <ctime>

namespace fp {
namespace {

constexpr std::chrono::microseconds kLookEvery{1'000}, kLookWhileShared{100};
constexpr int kTurnsAlone = 8;  // without another program for so many turns, a thread has its core to itself again

int64_t times_off_core() {
  struct rusage use {};
  return ::getrusage(RUSAGE_THREAD, &use) == 0 ? use.ru_nivcsw : 0;
}

}  // namespace

CoreTurns::Clock::duration CoreTurns::system_tick() {
  constexpr std::chrono::milliseconds kShortest{1}, kUsual{4}, kLongest{10};
  struct timespec of_coarse_clock {};  // on Linux a tick; sandboxes may say something else
  if (::clock_getres(CLOCK_MONOTONIC_COARSE, &of_coarse_clock) != 0 || of_coarse_clock.tv_sec != 0) return kUsual;
  const std::chrono::nanoseconds tick(of_coarse_clock.tv_nsec);
  return tick < kShortest || tick > kLongest ? kUsual : tick;
}

bool CoreTurns::ends_soon() {
  const Clock::time_point now = Clock::now();
  return is_due(now) && ends_soon(now, times_off_core());
}

void CoreTurns::give_up() {
  ::sched_yield();
  ends_soon(Clock::now(), times_off_core());
}

void CoreTurns::reset() { reset(Clock::now(), times_off_core()); }

bool CoreTurns::is_due(Clock::time_point now) const {
  return now - looked_ >= (shares_core() ? kLookWhileShared : kLookEvery);
}

bool CoreTurns::ends_soon(Clock::time_point now, int64_t times_off) {
  looked_ = now;
  const bool is_rare = now - began_ > kTurnsAlone * turn_;  // the system itself needs every core now and then
  if (times_off != times_off_) {
    times_off_ = times_off;
    began_ = now;
    said_ = false;
    if (!is_rare) shares_core_.store(true, std::memory_order_relaxed);
  } else if (is_rare) {
    shares_core_.store(false, std::memory_order_relaxed);
  }
  if (!shares_core() || said_ || now - began_ < turn_) return false;
  return said_ = true;
}

void CoreTurns::reset(Clock::time_point now, int64_t times_off) {
  looked_ = now;
  began_ = {};
  times_off_ = times_off;
  said_ = false;
  shares_core_.store(false, std::memory_order_relaxed);
}

}  // namespace fp
