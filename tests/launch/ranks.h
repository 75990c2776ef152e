// Runs a test's ranks as processes made with fork, each with a lifeline, and collects how they ended and what they
// said. Time is that of a driven clock: a rank is never late because the machine is busy.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/driven_clock.h"
#include "launch/lifeline.h"

namespace fp_test {

// What a rank's body sees.
struct RankContext {
  int rank;
  fp::Lifeline& lifeline;
  fp::CommRecord& record;
  DrivenClock& clock;
  std::atomic<double>& fault_time;  // of all ranks: when a body did what ends the run

  void mark_fault() const { fault_time = clock.seconds_since({}); }
};

struct Outcome {
  std::vector<int> codes;  // exit codes; 128 + signal; -1: had to be killed
  std::vector<long> pids;
  std::string text;          // stderr of all ranks
  double after_fault_s = 0;  // by the driven clock, from the fault until the last rank ended
  int count(const std::string& needle) const;
  bool says(const std::string& needle) const { return count(needle) > 0; }
};

struct RankOptions {
  int stopped = -1;             // a rank that a body stops for good: killed as soon as all others ended
  int absent = 0;               // more ranks that are expected but never start
  double all_stopped_s = 0;     // once bodies have stopped all ranks, so much time passes, and they go on
  bool own_nodes = false;       // each rank is on a node "nRANK" as Slurm would call it
  bool launcher_kills = false;  // all, once one has ended, as mpirun does
};

// Limits that no test is to reach, however busy the machine.
fp::EndLimits generous_end();

// Starts `size` ranks and runs `body` in each once all have joined; a body that returns ends its rank with exit code 0.
// The options' clock and the limits of connecting are the harness's. Ranks that hang are killed after minutes.
Outcome run_ranks(int size, fp::LifelineOptions options, const std::function<void(RankContext)>& body,
                  const RankOptions& = {});

// The same for processes without a lifeline.
Outcome run_processes(int size, const std::function<void(int process, DrivenTime&)>& body, const RankOptions& = {});

// The rank waits in a communication for ever.
void wait_in(RankContext, const fp::CommRecord::Entry&);

// As `size` exit codes.
std::vector<int> all(int size, int code);

}  // namespace fp_test
