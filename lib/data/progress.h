// Says how far a long job is: a live line on a terminal, else a log line now and then.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace fp {

class TaskProgress {
 public:
  explicit TaskProgress(std::string what);
  ~TaskProgress();  // clears the live line
  // `unit` goes after the rate, as in "12 MB/s"; rates are done / `unit_size` a second.
  void update(uint64_t done, uint64_t total, const char* unit, double unit_size);

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  Clock::time_point begin_, last_;
};

}  // namespace fp
