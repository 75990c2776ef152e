// Runs a test's ranks as processes made with fork, each with a lifeline, and collects how they ended and what they
// said.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "launch/lifeline.h"

namespace fp_test {

// What a rank's body sees.
struct RankContext {
  int rank;
  fp::Lifeline& lifeline;
  fp::CommRecord& record;
  std::atomic<double>& fault_time;  // of all ranks: when a body did what ends the run (now())
};

struct Outcome {
  std::vector<int> codes;  // exit codes; 128 + signal; -1: had to be killed
  std::vector<long> pids;
  std::string text;          // stderr of all ranks
  double after_fault_s = 0;  // from the fault until the last rank ended
  int count(const std::string& needle) const;
  bool says(const std::string& needle) const { return count(needle) > 0; }
};

double now();  // seconds of a clock that all processes share

// Starts `size` ranks and runs `body` in each once all have joined; a body that returns ends its rank with exit code 0.
// A rank that is not over after a minute is killed; `stopped` (a rank that a body stops) as soon as all others ended.
// `absent` more ranks are expected but never start.
Outcome run_ranks(int size, const fp::LifelineOptions& options, const std::function<void(RankContext)>& body,
                  int stopped = -1, int absent = 0);

// The rank waits in a communication for ever, or does something else for ever.
void wait_in(RankContext, const fp::CommRecord::Entry&);
[[noreturn]] void sleep_for_ever();
void sleep_s(double seconds);

// As `size` exit codes.
std::vector<int> all(int size, int code);

}  // namespace fp_test
