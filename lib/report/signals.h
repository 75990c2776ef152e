// Stop signals: SIGINT, SIGTERM, SIGUSR1 and SIGHUP end a run after the current step, with its state saved.
#pragma once

#include <optional>
#include <string_view>

#include "base/signal_handlers.h"

namespace fp {

// Installs handlers under which these signals only set a flag. A second SIGINT, half a second or more after the
// first, has its default effect and ends the process at once. The destructor restores the former handlers. At most one
// object may exist at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  std::optional<SignalHandlers> handlers_;
};

// Returns the first stop signal since StopSignals was constructed; 0: none. May be called from any thread.
int stop_signal();
inline bool stop_requested() { return stop_signal() != 0; }

// Returns "SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP", or "signal".
std::string_view signal_name(int signal);

}  // namespace fp
