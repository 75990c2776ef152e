// Stop signals that arrive before a run has anything to save.
#pragma once

#include <chrono>
#include <optional>

#include "base/signal_handlers.h"

namespace fp {

// While an object of this class lives, SIGINT, SIGTERM, SIGUSR1 and SIGHUP end the run with exit code 75: the same
// command starts it again. Once the lifeline exists, a signal to one rank ends all ranks. Before that, each process
// ends by itself, after a delay for the others: a launcher signals the ranks one after the other, and connections that
// break meanwhile are not reported. A second SIGINT, half a second or more after the first, has its default effect.
// Other handlers may be installed over these. At most one object may live at a time.
class EarlyStop {
 public:
  explicit EarlyStop(std::chrono::milliseconds moment = std::chrono::milliseconds(500));
  // To be called when the work is done: the signals have no effect until the process ends, since a launcher may still
  // forward one.
  void ignore_signals();

 private:
  std::optional<SignalHandlers> handlers_;
};

// Returns whether this process received a stop request, by signal or from another rank, and is about to end.
bool stopping_early();
// Sets stopping_early() and logs as a signal would, but does not end the process.
void stop_early();
// From now on a signal only writes to this eventfd, and the thread that waits for it ends the run. -1: no such thread.
void leave_early_stop_to(int eventfd);

}  // namespace fp
