// Measures how many cores other programs use. Loops on OpenMP's threads wait for their slowest thread: one that shares
// its core makes all of them half as fast, so there each free core gets one thread (base/parallel.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
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

// Returns the number of `cores`, at least one, that other programs left free between two readings. A program that uses
// 0.4 of a core counts as using all of it.
int free_cores(int cores, const CpuTimes& before, const CpuTimes& now);

// Returns the cores that other programs took from `threads` threads of ours on a machine of `cores` cores, of which all
// programs kept `busy` busy and we `own`. 0: cores were free beside ours, or it is too little to matter.
double cores_taken(double busy, double own, int threads, int cores);

// Follows the load of the machine.
class CoreLoad {
 public:
  static constexpr double kWindow = 0.5;  // seconds between two measurements

  using Read = std::function<std::optional<CpuTimes>()>;
  explicit CoreLoad(
      int cores, Read read = [] { return read_cpu_times(); });

  // Returns the number of free cores. Measures if the last measurement is at least kWindow ago, or at least `window_s`.
  int update(double window_s = kWindow);

 private:
  int cores_, free_;
  Read read_;
  std::optional<CpuTimes> last_;
};

}  // namespace fp
