// The Slurm job of a run: its number of restarts and its time limit.
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
  int64_t restarts = 0;          // number of times that it was requeued
  std::optional<double> ends{};  // seconds since 1970, if Slurm set it at the start
  bool operator==(const SlurmJob&) const = default;
};
// Returns the job of this process; nullopt outside a job. Throws ConfigError for values that are not numbers.
std::optional<SlurmJob> slurm_job(const Variables& variable = process_variable);

// Parses the remaining time of a job as squeue prints it, "1-02:03:04", "02:03:04" or "03:04", into seconds; infinite
// for UNLIMITED, nullopt for anything else (NOT_SET, INVALID).
std::optional<double> parse_time_left(std::string_view text);
// Parses a value of sbatch --time, "30" (minutes), "30:00", "1:30:00", "1-6", "1-6:30" or "1-6:30:00", into seconds;
// infinite for 0, UNLIMITED and INFINITE, nullopt for anything else.
std::optional<double> parse_time_limit(std::string_view text);

// Returns the output of a command; nullopt if it failed or was stopped.
using Ask = std::function<std::optional<std::string>(const std::vector<std::string>& command, const std::stop_token&)>;
std::optional<std::string> ask_program(const std::vector<std::string>& command, const std::stop_token&,
                                       std::chrono::seconds limit = std::chrono::seconds(30));

// The remaining time of a job. Polls squeue, as limits may change while jobs run, in a thread of its own, since a busy
// controller may be slow to answer; the destructor does not wait for an answer.
class JobClock {
 public:
  explicit JobClock(
      const SlurmJob&, Ask = [](const auto& command, const auto& stop) { return ask_program(command, stop); },
      std::chrono::milliseconds every = std::chrono::minutes(2), std::function<double()> now = unix_seconds);
  // Returns the remaining seconds; infinite if there is no limit, or none is known.
  double left() const;

 private:
  void ask(const SlurmJob&, const Ask&, const std::stop_token&);

  const std::function<double()> now_;                                   // seconds since 1970; any thread calls it
  std::atomic<double> ends_ = std::numeric_limits<double>::infinity();  // seconds since 1970
  std::jthread thread_;
};

}  // namespace fp
