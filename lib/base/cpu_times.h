// Processor time of this process and of all programs, by which measurements tell whether others disturbed them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace fp {

// Processor time in seconds, summed over some cores of this machine.
struct CpuTimes {
  double busy_s = 0;  // busy time of all programs, including steal time
  double own_s = 0;   // of this process
  int cores = 0;
  std::chrono::steady_clock::time_point at{};
};

// Reads the current CPU times; nullopt if /proc/stat is not available.
enum class Cores : uint8_t { allowed, all };  // those that this process may use, or all of the machine
std::optional<CpuTimes> read_cpu_times(Cores = Cores::allowed);

// Returns the busy seconds and the number of the cores with `allowed[core]` in the text of /proc/stat; empty if none of
// them is there.
std::optional<CpuTimes> busy_times(std::string_view proc_stat, const std::vector<bool>& allowed, double ticks_per_s);

// Returns the cores that other programs took from `threads` threads of ours on a machine of `cores` cores, of which all
// programs kept `busy` busy and we `own`. 0: cores were free beside ours, or it is too little to matter.
double cores_taken(double busy, double own, int threads, int cores);

}  // namespace fp
