// CoreTurns: the turns of a thread on a core that it shares with other programs, and when it gives them up.
//
// The operating system ends a turn at a tick of its clock, mostly within a piece of work, which then delays all threads
// that wait for it until the next turn. If the thread yields between two pieces, shortly before that tick, the others
// take the pieces that it has not begun.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace fp {

class CoreTurns {
 public:
  using Clock = std::chrono::steady_clock;

  // `tick`: of the system's clock. A turn begins at a tick.
  explicit CoreTurns(Clock::duration tick = system_tick()) : turn_(tick / 8 * 7) {}

  // Call these between pieces of work, always on the same thread. ends_soon() returns whether the system is about to
  // end a turn, once in a turn; give_up() ends it.
  bool ends_soon();
  void give_up();
  // Forgets that the core is shared, as after a move to another one.
  void reset();
  // Returns whether the system has recently given the core to another program. Any thread may ask.
  bool shares_core() const { return shares_core_.load(std::memory_order_relaxed); }

  // The same with a given clock and count, for tests. `times_off` is how often the thread had to leave its core, also
  // because it gave up a turn. is_due() returns whether it is time to call ends_soon(), which takes a system call.
  bool is_due(Clock::time_point now) const;
  bool ends_soon(Clock::time_point now, int64_t times_off);
  void reset(Clock::time_point now, int64_t times_off);

  static Clock::duration system_tick();  // 1 to 10 ms

 private:
  Clock::duration turn_;
  Clock::time_point looked_{}, began_{};  // when times_off was counted last, and when the present turn began
  int64_t times_off_ = 0;
  bool said_ = false;  // whether ends_soon() has been true in this turn
  std::atomic<bool> shares_core_{false};
};

}  // namespace fp
