#include "base/cpu_times.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace fp {

std::optional<CpuTimes> busy_times(std::string_view proc_stat, double ticks_per_s) {
  // cpuN user nice system idle iowait irq softirq steal ...
  constexpr size_t kIdle = 3, kWaiting = 4, kFields = 8;
  std::istringstream lines{std::string(proc_stat)};
  double ticks = 0;
  CpuTimes t;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("cpu") || line.size() < 4 || line[3] == ' ') continue;
    std::istringstream fields(line.substr(3));
    size_t core = 0;
    fields >> core;
    if (!fields) continue;
    ++t.cores;
    double value = 0;
    for (size_t i = 0; i < kFields && fields >> value; ++i) {
      if (i != kIdle && i != kWaiting) ticks += value;
    }
  }
  t.busy_s = ticks / ticks_per_s;
  return t.cores > 0 ? std::optional(t) : std::nullopt;
}

std::optional<CpuTimes> read_cpu_times() {
  timespec own{};
  std::ifstream in("/proc/stat");
  std::ostringstream text;
  text << in.rdbuf();
  if (!in || ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own) != 0) return {};
  auto times = busy_times(text.str(), static_cast<double>(::sysconf(_SC_CLK_TCK)));
  if (!times) return {};
  times->own_s = static_cast<double>(own.tv_sec) + 1e-9 * static_cast<double>(own.tv_nsec);
  times->at = std::chrono::steady_clock::now();
  return times;
}

double cores_taken(double busy, double own, int threads, int cores) {
  constexpr double kMatters = 0.1;  // of our threads
  const double taken = busy - own - std::max(cores - threads, 0);
  return taken > kMatters * threads ? taken : 0;
}

}  // namespace fp
