// Progress of work of a known amount, such as an evaluation: what is done, and the time left.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace fp {

// Returns "1200 of 9700 samples, 12 %, 2m 05s left"; without a time where nothing is done yet.
std::string work_line(const std::string& unit, int64_t done, int64_t total, double elapsed_s);

// Shows the line on a terminal, at most ten times a second. Elsewhere each tenth of work that takes over half a minute
// is logged.
class WorkProgress {
 public:
  WorkProgress(std::string unit, int64_t total);
  ~WorkProgress();  // clears the line
  WorkProgress(const WorkProgress&) = delete;
  WorkProgress& operator=(const WorkProgress&) = delete;

  void done(int64_t n);

 private:
  using Clock = std::chrono::steady_clock;
  std::string unit_;
  int64_t total_, logged_tenths_ = 0;
  Clock::time_point start_ = Clock::now(), drawn_ = start_;
};

}  // namespace fp
