// Handlers of the signals by which people and launchers tell a run to stop: SIGINT, SIGTERM, SIGUSR1.
#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace fp {

constexpr std::array<int, 3> kStopSignals{SIGINT, SIGTERM, SIGUSR1};

// Puts `handler` in their place while it lives, then the former ones back. Reads and writes under way go on. `blocked`:
// the signals that wait while the handler runs.
class SignalHandlers {
 public:
  SignalHandlers(void (*handler)(int), const sigset_t& blocked);
  ~SignalHandlers();
  SignalHandlers(const SignalHandlers&) = delete;
  SignalHandlers& operator=(const SignalHandlers&) = delete;
  // The process ignores these signals from now on, also after this object's end.
  void ignore_for_good();

 private:
  std::array<struct sigaction, kStopSignals.size()> former_{};
};

// Tells a second Ctrl-C from the first that comes twice: a terminal sends it to mpirun and to the ranks near it, and
// mpirun hands its own on. For handlers: lock-free and async-signal-safe.
class Interrupts {
 public:
  static constexpr int64_t kRepetitionNs = 500'000'000;

  // The monotonic clock in nanoseconds that all go by, async-signal-safe; nullptr: the system's. A test sets its own.
  static void use_clock(int64_t (*now_ns)());

  enum class Kind { first, repetition, another };
  Kind note();
  // The next one is the first again.
  void forget() { first_ns_ = 0; }
  // One that was held back until now is a repetition.
  void restart();

 private:
  std::atomic<int64_t> first_ns_{0};
};

// A second Ctrl-C does what it does by default: blocked while its handler runs, it takes effect when that returns.
void interrupt_by_default();

}  // namespace fp
