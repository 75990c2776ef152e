// The Slurm job that a run is part of: how often it was restarted, and when its time is up.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/stopwatch.h"
#include "launch/environment.h"

namespace fp {

struct SlurmJob {
  std::string id;
  int64_t restarts = 0;          // times that it was requeued
  std::optional<double> ends{};  // seconds since 1970, where Slurm told at its start
  bool operator==(const SlurmJob&) const = default;
};
// Nothing outside a job. ConfigError for values that are no numbers.
std::optional<SlurmJob> slurm_job(const Variables& variable = process_variable);

// Seconds in "1-02:03:04", "02:03:04" or "03:04", as squeue prints what is left of a job's time; infinite: UNLIMITED.
// Nothing for all else (NOT_SET, INVALID).
std::optional<double> parse_time_left(std::string_view text);
// Seconds in what sbatch takes for --time: "30" (minutes), "30:00", "1:30:00", "1-6", "1-6:30", "1-6:30:00"; infinite:
// 0, UNLIMITED, INFINITE. Nothing for all else.
std::optional<double> parse_time_limit(std::string_view text);

// What a command printed; nothing where it failed or was stopped.
using Ask = std::function<std::optional<std::string>(const std::vector<std::string>& command, const std::stop_token&)>;
std::optional<std::string> ask_program(const std::vector<std::string>& command, const std::stop_token&,
                                       std::chrono::seconds limit = std::chrono::seconds(30));

// What is left of a job's time. Asks squeue, again and again, as limits are changed while jobs run; in a thread of its
// own, since a busy controller may take its time to answer; the destructor does not wait for that.
class JobClock {
 public:
  explicit JobClock(
      const SlurmJob&, Ask = [](const auto& command, const auto& stop) { return ask_program(command, stop); },
      std::chrono::milliseconds every = std::chrono::minutes(2), std::function<double()> now = unix_seconds);
  // Seconds; infinite where there is no limit, or none is known.
  double left() const;

 private:
  void ask(const SlurmJob&, const Ask&, const std::stop_token&);

  const std::function<double()> now_;                                   // seconds since 1970; any thread calls it
  std::atomic<double> ends_ = std::numeric_limits<double>::infinity();  // seconds since 1970
  std::jthread thread_;
};

}  // namespace fp
