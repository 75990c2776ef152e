// Being told to stop before there is anything to save.
#pragma once

#include <chrono>
#include <optional>

#include "base/signal_handlers.h"

namespace fp {

// While one of these lives, SIGINT, SIGTERM and SIGUSR1 end the run with exit code 75: the same command starts again.
// One rank that is told is enough, once there is a lifeline: it ends them all. Before, the process ends by itself,
// after a moment that it gives the others: a launcher tells all, one after the other, and connections that break
// meanwhile are no news. A second SIGINT, half a second or more after the first, does what SIGINT does by default.
// Other handlers may be put over these. At most one lives at a time.
class EarlyStop {
 public:
  explicit EarlyStop(std::chrono::milliseconds moment = std::chrono::milliseconds(500));
  // The work is done: the signals change nothing until the process ends, since a launcher may still forward one.
  void over();

 private:
  std::optional<SignalHandlers> handlers_;
};

// Whether this process was told so, itself or by another rank, and is about to end.
bool stopping_early();
// As if it had been told by a signal, but for what follows.
void stop_early();
// From now on a signal only adds to this eventfd: whoever waits for it ends the run. -1: nobody does.
void leave_early_stop_to(int eventfd);

}  // namespace fp
