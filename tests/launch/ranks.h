// Runs a test's ranks as processes made with fork, each with a lifeline, and collects their exit codes and output. Time
// is that of a driven clock: a rank is never late because the machine is busy.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/driven_clock.h"
#include "launch/lifeline.h"
#include "support/count_of.h"

namespace fp::test {

// The arguments of a rank's body.
struct RankContext {
  int rank;
  fp::Lifeline& lifeline;
  fp::CommRecord& record;
  DrivenClock& clock;
  std::atomic<double>& fault_time;  // shared by all ranks: the time of the action that ends the run
  std::string address;              // of the lifeline, on every rank

  void mark_fault() const { fault_time = clock.seconds_since({}); }
};

struct RanksOutcome {
  std::vector<int> codes;  // exit codes; 128 + signal; -1: had to be killed
  std::vector<long> pids;
  std::string text;          // stderr of all ranks
  double after_fault_s = 0;  // by the driven clock, from the fault until the last rank ended
  int count(const std::string& needle) const { return count_of(text, needle); }
  bool says(const std::string& needle) const { return count(needle) > 0; }
};

struct RankOptions {
  int stopped = -1;              // a rank that its body stops for good: killed once all others have ended
  int absent = 0;                // additional ranks that are expected but never start
  double all_stopped_s = 0;      // once all ranks are stopped, this much time passes, and they continue
  bool own_nodes = false;        // each rank is on a node "nRANK" as Slurm would call it
  bool launcher_kills = false;   // kills all ranks once one has ended, as mpirun does
  bool over_interfaces = false;  // connect as ranks on several hosts do, not over loopback
};

// Limits that no test reaches, however busy the machine.
fp::EndLimits generous_end();

// Starts `size` ranks and runs `body` in each once all have joined; a body that returns ends its rank with exit code 0.
// The harness sets the options' clock and connection limits. Ranks that hang are killed after minutes.
RanksOutcome run_ranks(int size, fp::LifelineOptions options, const std::function<void(RankContext)>& body,
                       const RankOptions& = {});

// As run_ranks(), for processes without a lifeline.
RanksOutcome run_processes(int size, const std::function<void(int process, DrivenTime&)>& body,
                           const RankOptions& = {});

// Makes the rank wait in a communication forever.
void wait_in(RankContext, const fp::CommRecord::Entry&);

// Returns `size` copies of an exit code.
std::vector<int> all(int size, int code);

}  // namespace fp::test
