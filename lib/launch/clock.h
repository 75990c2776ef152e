// The clock by which the lifeline waits and judges. A test may put one in its place that it drives itself.
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
  // Waits until one of these descriptors has something to read or is broken, or until the time has come; a signal may
  // end it early. Returns those that are ready, ascending.
  virtual std::vector<int> wait_readable(const std::vector<int>& fds, Time until) = 0;
  // A thread whose waits all go through this clock, and the wait for its end.
  virtual std::thread start(std::function<void()> body) = 0;
  virtual void join(std::thread&) = 0;

  double seconds_since(Time start) { return std::chrono::duration<double>(now() - start).count(); }
  Time after(double seconds) {
    return now() + std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds));
  }
};

// The system's own; it lives for ever.
MonotonicClock& real_clock();

}  // namespace fp
