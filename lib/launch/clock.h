// The clock that the lifeline uses for all waits and timeouts. Tests substitute one that they drive themselves.
#pragma once

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

namespace fp {

class MonotonicClock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  MonotonicClock() = default;
  virtual ~MonotonicClock() = default;
  MonotonicClock(const MonotonicClock&) = delete;
  MonotonicClock& operator=(const MonotonicClock&) = delete;

  virtual Time now() = 0;
  // Waits until one of the descriptors is readable or broken, or until the time `until`; a signal may end the wait
  // early. Returns those that are ready, in ascending order.
  virtual std::vector<int> wait_readable(const std::vector<int>& fds, Time until) = 0;
  // Starts a thread that waits through this clock only, and joins it.
  virtual std::thread start(std::function<void()> body) = 0;
  virtual void join(std::thread&) = 0;

  double seconds_since(Time start) { return std::chrono::duration<double>(now() - start).count(); }
  Time after(double seconds) {
    return now() + std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds));
  }
};

// The system's clock; it is never destroyed.
MonotonicClock& real_clock();

}  // namespace fp
