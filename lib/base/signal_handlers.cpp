#include "base/signal_handlers.h"

#include <cerrno>

#include "base/error.h"

namespace fp {

SignalHandlers::SignalHandlers(void (*handler)(int), const sigset_t& blocked) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  action.sa_mask = blocked;
  for (size_t i = 0; i < kStopSignals.size(); ++i)
    FP_CHECK(::sigaction(kStopSignals[i], &action, &former_[i]) == 0, "sigaction {}: errno {}", kStopSignals[i], errno);
}

SignalHandlers::~SignalHandlers() {
  for (size_t i = 0; i < kStopSignals.size(); ++i) ::sigaction(kStopSignals[i], &former_[i], nullptr);
}

void interrupt_by_default() {
  ::signal(SIGINT, SIG_DFL);
  ::raise(SIGINT);
}

}  // namespace fp
