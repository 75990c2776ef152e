// Reports the progress of a long task: a live line on a terminal, else periodic log lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace fp {

// Returns "tokenizing: 12%, 2.5 MB/s, 2m 05s left". The rate is in `unit_size` of done per second.
std::string progress_line(const std::string& what, uint64_t done, uint64_t total, const char* unit, double unit_size,
                          double elapsed_s);

class TaskProgress {
 public:
  explicit TaskProgress(std::string what);
  ~TaskProgress();  // clears the live line
  // Reports the rate as done / `unit_size` per second, followed by `unit`, as in "12 MB/s". May be called often: it
  // prints at most every 0.1 s on a terminal, else every 10 s.
  void update(uint64_t done, uint64_t total, const char* unit, double unit_size);

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  Clock::time_point begin_, last_;
};

}  // namespace fp
