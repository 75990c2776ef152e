// A time limit for what can hang before there is a lifeline between the ranks.
#pragma once

#include <string>
#include <thread>

#include "launch/channel.h"
#include "launch/clock.h"
#include "launch/lifeline.h"

namespace fp {

class Deadline {
 public:
  // Ends this process, with code 76 and the message as an error, unless this is destroyed within so many seconds; 0:
  // has all the time there is. Nothing that holds the log or the standard streams keeps it from ending.
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
