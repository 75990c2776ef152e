// Detects that a run of many ranks is stalled, and which ranks are the cause, from the last reported state of each
// rank.
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
  double still_s = 0;   // seconds since its progress counter changed
  bool silent = false;  // its last three heartbeats are missing
  std::string node{};   // the scheduler's name of its host
};

// Seconds by phase; 0 or absent: never.
using PhaseTimeouts = std::map<std::string, double>;

// Returns whether the run is stalled. A rank is late when its progress counter has not changed for longer than the
// timeout of its phase. It waits when it is in a communication, or when its device has not finished all calls of a
// communicator, whatever its host thread does. The run is stalled when at least one rank is late, and
// 1. every rank is late or silent, or
// 2. one rank waits, is late and not silent, while another rank is silent, or late without waiting.
// So a rank may work alone while others wait for it, as long as it makes progress within its phase's timeout.
bool is_stalled(std::span<const RankState>, const PhaseTimeouts&);

// Returns the ranks to investigate first: silent ranks; else those that have not issued a call for which others wait on
// their devices; else those that do not wait while others do; else those in another communication than the majority;
// without a majority, those at the earliest step. Empty: no rank is suspect.
std::vector<int> odd_ones_out(std::span<const RankState>);

// Describes a stall in several lines: its duration, the suspect ranks, and the activity of every rank, with ranks in
// the same state on one line.
std::string describe_stall(std::span<const RankState>);

// "rank 3" or "ranks 0-2,5"; "step 12, phase step, waiting in all_reduce of data #345".
std::string ranks_text(const std::vector<int>& ranks);
std::string describe(const CommRecord::Activity&);
// "rank 3 (host node1, pid 4711)"
std::string describe_process(const RankState&);

}  // namespace fp
