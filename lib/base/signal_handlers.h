// Handlers for the signals by which users and launchers stop a run: SIGINT, SIGTERM, SIGUSR1, and SIGHUP, which a
// process gets whose terminal is closed.
#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace fp {

constexpr std::array<int, 4> kStopSignals{SIGINT, SIGTERM, SIGUSR1, SIGHUP};

// Installs `handler` for these signals and restores the former handlers on destruction. Interrupted system calls are
// restarted (SA_RESTART). SIGHUP stays ignored if it was, as under nohup. `blocked`: signals that are blocked while the
// handler runs.
class SignalHandlers {
 public:
  SignalHandlers(void (*handler)(int), const sigset_t& blocked);
  ~SignalHandlers();
  SignalHandlers(const SignalHandlers&) = delete;
  SignalHandlers& operator=(const SignalHandlers&) = delete;
  // Makes the process ignore these signals from now on, also after this object is destroyed.
  void ignore_for_good();

 private:
  std::array<struct sigaction, kStopSignals.size()> former_{};
};

// Distinguishes a second Ctrl-C from the first one received twice: a terminal sends SIGINT to mpirun and to the ranks
// of the same host, and mpirun forwards its own. For use in signal handlers: lock-free and async-signal-safe.
class Interrupts {
 public:
  static constexpr int64_t kRepetitionNs = 500'000'000;

  // Sets the monotonic clock, in nanoseconds, that all objects use; it must be async-signal-safe. nullptr: the
  // system's. For tests.
  static void use_clock(int64_t (*now_ns)());

  enum class Kind { first, repetition, another };
  // Records an interrupt that has just arrived. Returns `repetition` within kRepetitionNs of the first one.
  Kind note();
  // Makes the next interrupt count as the first again.
  void forget() { first_ns_ = 0; }
  // Restarts the time in which an interrupt counts as a repetition, for one that was held back until now.
  void restart();

 private:
  std::atomic<int64_t> first_ns_{0};
};

// Restores the default action of SIGINT and raises it: SIGINT is blocked while its handler runs, so it takes effect
// when the handler returns.
void interrupt_by_default();

}  // namespace fp
