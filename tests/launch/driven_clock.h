// A clock for threads of several processes that advances only when all of them wait, from wait to wait, as in a
// discrete-event simulation. However slow the machine, nothing is ever late by it. Events at the same time happen in
// any order.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

#include "launch/clock.h"

namespace fp::test {

// The state of one thread's wait, in shared memory.
struct WaitSlot {
  static constexpr int64_t kRunning = -1, kAbsent = -2;
  static constexpr int64_t kJoining = std::numeric_limits<int64_t>::max() - 1;  // waits for the end of another thread
  std::atomic<int64_t> until_ns{kAbsent};
  std::atomic<uint64_t> waits{0};  // number of waits begun
  std::atomic<uint64_t> polls{0};  // number of polls that found nothing to read and nothing in flight
};

// Lies in memory shared by the processes.
struct DrivenTime {
  static constexpr int kMostProcesses = 16;
  std::atomic<int64_t> now_ns{1'000'000'000};
  // For each process, its main thread and the thread that start() created.
  std::array<std::array<WaitSlot, 2>, kMostProcesses> slots;
  double now_s() const { return static_cast<double>(now_ns.load()) * 1e-9; }
};

// The clock of one process. To be created on the process's main thread, which counts as running from then on.
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

// Advances the time. `takes_part` lists the processes that have neither ended nor are stopped.
class TimeDriver {
 public:
  explicit TimeDriver(DrivenTime& time) : time_(time) {}
  // Polls once. When all threads have been waiting for two polls each, with no message in flight, sets the time to the
  // earliest end of a wait.
  void poll(const std::vector<int>& takes_part);

 private:
  struct Seen {
    const WaitSlot* slot;
    uint64_t waits, polls;
  };
  // Returns the progress of all waiting threads; empty when a thread runs or is about to.
  std::vector<Seen> seen(const std::vector<int>& takes_part) const;

  DrivenTime& time_;
  std::vector<Seen> before_;
  int quiet_rounds_ = 0;
};

}  // namespace fp::test
