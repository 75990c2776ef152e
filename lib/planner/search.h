// The search for the fastest plan that fits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/estimate.h"
#include "planner/plan.h"

namespace fp {

struct Choice {
  Plan plan;
  Estimate estimate;
  bool exact = false;  // false: a quick estimate
  std::string why;     // why it is not the best
};

struct Search {
  std::optional<Choice> best;        // empty: nothing fits
  std::optional<Choice> closest;     // if nothing fits: the plan that exceeds the memory by least
  std::vector<Choice> alternatives;  // with other degrees or schedules, fastest first; then with another micro-batch
  std::vector<std::string> remarks;  // what would allow a faster plan
  int leads = 0, quick_estimates = 0, estimates = 0;
  std::string limit;  // the limit that left plans out: "22 exact estimates"; empty: none were left out
  bool complete() const { return limit.empty(); }
};

struct SearchLimits {
  double seconds = 8;  // of processor time, so that a busy machine finds the same plan
  int estimates = 24;
  int alternatives = 5;
};

// Searches the plans of a resolved spec whose vocabulary is known. Estimates the most promising plans exactly, best
// first, until no other can beat the best. Throws ConfigError if no values of the open keys make a legal plan for this
// number of ranks.
Search search(const RunSpec&, int ranks, const ClusterSpec&, PlanEstimator&, const SearchLimits& = {});

// Returns the plan nearest to that of a spec which does not fit: with the fewest changed keys, then the fastest. Keys
// that save memory are tried first (recompute, micro_batch, zero_stage, megatron_sp, loss_chunk_tokens, offloaded
// activations, tiles, chunks of sequences, offloaded state), then other arrangements of the ranks. Batches, sequences
// and the model stay. Empty: none fits, or none was found in `seconds` of processor time.
std::optional<Choice> nearest_fitting(const RunSpec&, int ranks, const ClusterSpec&, PlanEstimator&,
                                      double seconds = 1.5);

// Returns "; train.micro_batch = 16 is written: without it, the planner chooses it", or nothing if it may choose it.
std::string written_micro_batch(const RunSpec&);
// Returns why `other` is not the best: "4.1 % slower: more bubble", "over by 3.20 GiB (mostly activations)".
std::string why_not(const Choice& other, const Choice& best, const ClusterSpec&);
// Returns needed / available memory, of the device, of the node or of a budget, whichever is largest; above 1 it does
// not fit.
double memory_fraction(const RankMemory&);
// Returns "over by 3.20 GiB (mostly activations)"; empty if it fits.
std::string overrun(const RankMemory&);
// Returns advice about checkpoint.asynchronous if the plan would fit without the staging areas of saves; else empty.
std::string spare_staging(const RankMemory&);

}  // namespace fp
