#include "host/cpu_time.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

namespace fp {
namespace {

std::optional<CpuTime> machine_cpu_time() {
  std::ifstream file("/proc/stat");
  std::stringstream text;
  text << file.rdbuf();
  return parse_cpu_time(text.str(), static_cast<double>(::sysconf(_SC_CLK_TCK)));
}

}  // namespace

std::optional<CpuTime> parse_cpu_time(std::string_view proc_stat, double ticks_per_s) {
  std::istringstream lines{std::string(proc_stat)};
  CpuTime t;
  for (std::string line; std::getline(lines, line) && line.starts_with("cpu");) {
    std::istringstream words(line);
    std::string name;
    // user, nice, system, idle, iowait, irq, softirq, steal
    double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, softirq = 0, steal = 0;
    if (!(words >> name >> user >> nice >> system >> idle >> wait >> irq >> softirq >> steal)) return {};
    if (name == "cpu")
      t.busy_s = (user + nice + system + irq + softirq + steal) / ticks_per_s;
    else
      ++t.cores;
  }
  return t.cores > 0 && ticks_per_s > 0 ? std::optional(t) : std::nullopt;
}

double own_cpu_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

MachineLoad::MachineLoad() : before_(machine_cpu_time()) {}

double MachineLoad::elapsed_s() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

std::optional<double> MachineLoad::busy_cores() const {
  const auto after = machine_cpu_time();
  if (!before_ || !after || elapsed_s() <= 0) return {};
  return (after->busy_s - before_->busy_s) / elapsed_s();
}

double cores_taken(double busy, double own, int threads, int cores) {
  constexpr double kMatters = 0.1;  // of our threads
  const double taken = busy - own - std::max(cores - threads, 0);
  return taken > kMatters * threads ? taken : 0;
}

}  // namespace fp
