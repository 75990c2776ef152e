// Handlers of the signals by which people and launchers tell a run to stop: SIGINT, SIGTERM, SIGUSR1.
#pragma once

#include <signal.h>

#include <array>

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

 private:
  std::array<struct sigaction, kStopSignals.size()> former_{};
};

// A second Ctrl-C does what it does by default: blocked while its handler runs, it takes effect when that returns.
void interrupt_by_default();

}  // namespace fp
