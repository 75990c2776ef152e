#include "launch/deadline.h"

#include <utility>

#include "launch/member.h"

namespace fp {

Deadline::Deadline(double seconds, std::string message, MonotonicClock& clock, EndLimits end) : clock_(clock) {
  if (seconds <= 0) return;
  watcher_ = clock_.start([this, until = clock_.after(seconds), message = std::move(message), end] {
    while (clock_.now() < until) {
      if (!clock_.wait_readable({met_.fd()}, until).empty()) return;
    }
    leave_after(end.longest_s, kInfrastructure);
    log_error(message, end.log_s);
    leave(kInfrastructure, end.flush_s);
  });
}

Deadline::~Deadline() {
  met_.post({"met", {}});
  if (watcher_.joinable()) clock_.join(watcher_);
}

}  // namespace fp
