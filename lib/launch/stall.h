// When a run of many ranks stands still, and who is to blame: judged from what each rank last said of itself.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "comm/record.h"

namespace fp {

struct RankState {
  int rank = 0;
  std::string host;
  long pid = 0;
  CommRecord::Activity activity;
  double still_s = 0;   // its progress counter has not changed for so long
  bool silent = false;  // it has sent no heartbeat for three of them
  std::string node{};   // as the scheduler calls its host
};

// Seconds by phase; 0 or absent: never.
using PhaseTimeouts = std::map<std::string, double>;

// A rank is overdue when its progress counter has not changed for longer than the timeout of its phase, or when it is
// silent. A rank whose device has not finished all calls of a communicator waits in a communication, whatever its host
// does. The run is stalled when all ranks are overdue; or when one that waits in a communication is, and one that is
// not there (it works, or is silent) is too. So a rank may work alone while others wait for it, as long as it makes
// progress within its phase's timeout.
bool is_stalled(std::span<const RankState>, const PhaseTimeouts&);

// The ranks to look at first: silent ones; else those that have not issued a call which others wait for on their
// devices; else those that do not wait while others do; else those in another communication than most; with no
// majority, those of the earliest step. Empty: no rank stands out.
std::vector<int> odd_ones_out(std::span<const RankState>);

// Several lines: since when, the odd ones out, and what every rank does, ranks in the same state on one line.
std::string describe_stall(std::span<const RankState>);

// "rank 3" or "ranks 0-2,5"; "step 12, phase step, waiting in all_reduce of data #345".
std::string ranks_text(const std::vector<int>& ranks);
std::string describe(const CommRecord::Activity&);
// "rank 3 (host node1, pid 4711)"
std::string describe_process(const RankState&);

}  // namespace fp
