// A clock for threads of several processes that moves on only when all of them wait for it: from wait to wait, as in a
// simulation of discrete events. However slow the machine, nothing is ever late by it. What happens at the same time
// happens in any order.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

#include "launch/clock.h"

namespace fp_test {

// The state of one thread's wait, in memory that processes share.
struct WaitSlot {
  static constexpr int64_t kRunning = -1, kAbsent = -2;
  static constexpr int64_t kJoining = std::numeric_limits<int64_t>::max() - 1;  // what ends it is a thread beside it
  std::atomic<int64_t> until_ns{kAbsent};
  std::atomic<uint64_t> waits{0};  // begun so far
  std::atomic<uint64_t> polls{0};  // of waits that found nothing to read and nothing under way to anybody
};

// Lies in memory that processes share.
struct DrivenTime {
  static constexpr int kMostProcesses = 16;
  std::atomic<int64_t> now_ns{1'000'000'000};
  // For each process its main thread and the one that start() made.
  std::array<std::array<WaitSlot, 2>, kMostProcesses> slots;
  double now_s() const { return static_cast<double>(now_ns.load()) * 1e-9; }
};

// The clock as a process sees it. Made on the process's main thread, which counts as running from then on.
class DrivenClock final : public fp::MonotonicClock {
 public:
  DrivenClock(DrivenTime&, int process);
  Time now() override;
  std::vector<int> wait_readable(const std::vector<int>& fds, Time until) override;
  std::thread start(std::function<void()> body) override;
  void join(std::thread&) override;

  void sleep_s(double seconds);
  [[noreturn]] void sleep_for_ever();

 private:
  WaitSlot& slot();

  DrivenTime& time_;
  const int process_;
  const std::thread::id main_ = std::this_thread::get_id();
};

// Moves the time on. `takes_part` names the processes that neither ended nor are stopped.
class TimeDriver {
 public:
  explicit TimeDriver(DrivenTime& time) : time_(time) {}
  // One look. When all threads have been waiting, with no message under way, for two looks at each, the time becomes
  // that of the first wait that is to end.
  void look(const std::vector<int>& takes_part);

 private:
  struct Seen {
    const WaitSlot* slot;
    uint64_t waits, polls;
  };
  // The progress of all waiting threads so far; nothing when a thread runs or is about to.
  std::vector<Seen> seen(const std::vector<int>& takes_part) const;

  DrivenTime& time_;
  std::vector<Seen> before_;
  int quiet_rounds_ = 0;
};

}  // namespace fp_test
