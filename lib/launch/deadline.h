// A time limit for operations that may hang before the lifeline between the ranks exists.
#pragma once

#include <string>
#include <thread>

#include "launch/channel.h"
#include "launch/clock.h"
#include "launch/lifeline.h"

namespace fp {

class Deadline {
 public:
  // Ends this process with exit code 76, logging `message` as an error, unless this object is destroyed within
  // `seconds`; 0: no limit. The process ends even if other threads hold the log or the standard streams.
  Deadline(double seconds, std::string message, MonotonicClock& = real_clock(), EndLimits = {});
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  MonotonicClock& clock_;
  Mailbox met_;
  std::thread watcher_;
};

}  // namespace fp
