// Processor time of this process and of all programs, by which measurements tell whether others disturbed them.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace fp {

// Processor time in seconds, summed over all cores of this machine.
struct CpuTimes {
  double busy_s = 0;  // busy time of all programs, including steal time
  double own_s = 0;   // of this process
  int cores = 0;
  std::chrono::steady_clock::time_point at{};
};

// Reads the current CPU times; nullopt if /proc/stat is not available.
std::optional<CpuTimes> read_cpu_times();

// Returns the busy seconds and the number of cores from the text of /proc/stat; nullopt if it lists no core.
std::optional<CpuTimes> busy_times(std::string_view proc_stat, double ticks_per_s);

// Returns the number of cores that other programs took from this process, which ran `threads` threads, on a machine of
// `cores` cores. `busy`, `own`: mean number of cores that all programs and this process kept busy. Less than a tenth of
// `threads` counts as 0.
double cores_taken(double busy, double own, int threads, int cores);

}  // namespace fp
