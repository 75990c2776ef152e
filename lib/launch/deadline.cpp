#include "launch/deadline.h"

#include <unistd.h>

#include <utility>

#include "base/log.h"

namespace fp {

Deadline::Deadline(double seconds, std::string message, MonotonicClock& clock) : clock_(clock) {
  if (seconds <= 0) return;
  watcher_ = clock_.start([this, until = clock_.after(seconds), message = std::move(message)] {
    while (clock_.now() < until) {
      if (!clock_.wait_readable({met_.fd()}, until).empty()) return;
    }
    log::error("{}", message);
    ::_exit(1);
  });
}

Deadline::~Deadline() {
  met_.post({"met", {}});
  if (watcher_.joinable()) clock_.join(watcher_);
}

}  // namespace fp
