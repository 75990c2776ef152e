// CPU time that all programs of this machine take, to recognise measurements that others have disturbed.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace fp {

struct CpuTime {
  double busy_s = 0;  // of all cores since the machine started
  int cores = 0;
};

// Reads the text of /proc/stat, whose unit is 1 / `ticks_per_s` seconds. Returns nullopt if it is malformed.
std::optional<CpuTime> parse_cpu_time(std::string_view proc_stat, double ticks_per_s);

// CPU time of this process.
double own_cpu_seconds();

// Observes the machine from its construction on.
class MachineLoad {
 public:
  MachineLoad();
  // Returns the mean number of cores that all programs together have kept busy; nullopt if that is not known.
  std::optional<double> busy_cores() const;
  int cores() const { return before_ ? before_->cores : 0; }
  double elapsed_s() const;

 private:
  std::optional<CpuTime> before_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Returns the cores that others took from `threads` threads of ours on a machine of `cores` cores, of which all
// programs kept `busy` busy and we `own`. 0: cores were free beside ours, or it is too little to matter.
double cores_taken(double busy, double own, int threads, int cores);

}  // namespace fp
