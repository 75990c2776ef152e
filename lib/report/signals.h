// Asking a run to stop: SIGINT, SIGTERM and SIGUSR1 end it after the present step, with its state saved.
#pragma once

#include <optional>
#include <string_view>

#include "base/signal_handlers.h"

namespace fp {

// While one of these lives, the three signals only leave a mark. A second SIGINT, half a second or more after
// the first, does what SIGINT does by default: it ends the process at once. The destructor puts the former handlers
// back. At most one lives at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  std::optional<SignalHandlers> handlers_;
};

// The first stop signal since StopSignals was made; 0: none. Safe from any thread.
int stop_signal();
inline bool stop_requested() { return stop_signal() != 0; }

// "SIGINT", "SIGTERM", "SIGUSR1", or "signal".
std::string_view signal_name(int signal);

}  // namespace fp
