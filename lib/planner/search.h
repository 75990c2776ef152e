// The search for the plan that takes least time and fits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/judge.h"
#include "planner/plan.h"

namespace fp {

struct Choice {
  Plan plan;
  Estimate estimate;
  bool exact = false;  // else by a glance
  std::string why;     // it is not the best
};

struct Search {
  std::optional<Choice> best;        // empty: nothing fits
  std::optional<Choice> closest;     // where nothing fits: what is over by least
  std::vector<Choice> alternatives;  // that differ in degrees or schedule, fastest first; then another micro-batch
  std::vector<std::string> remarks;  // what would change the verdict
  int leads = 0, glances = 0, estimates = 0;
  bool complete = true;  // no plan was left out for want of time
};

struct SearchBudget {
  double seconds = 8;
  int estimates = 24;
  int alternatives = 5;
};

// Of a resolved spec with its vocabulary. The better plans are looked at first, and exactly, until no other can beat
// the best. ConfigError when nothing that the spec leaves open makes a legal plan for so many ranks.
Search search(const RunSpec&, int ranks, const ClusterSpec&, Judge&, const SearchBudget& = {});

// The plan nearest to that of a spec which does not fit: with the fewest changed keys, then the fastest. What saves
// memory is tried first: recompute, micro_batch, zero_stage, megatron_sp, loss_chunk_tokens; then other arrangements of
// the ranks. Batches, sequences and the model stay. Empty: none fits, or none was found in time.
std::optional<Choice> nearest_fitting(const RunSpec&, int ranks, const ClusterSpec&, Judge&, double seconds = 1.5);

// How `other` differs from the best: "4.1 % slower: more bubble", "over by 3.2 GiB of activations".
std::string why_not(const Choice& other, const Choice& best, const ClusterSpec&);
// What a plan needs of what there is, where it is tightest: over 1 does not fit.
double fullness(const RankMemory&);
// "over by 3.2 GiB (mostly activations)"; empty where it fits.
std::string overrun(const RankMemory&);
// "; checkpoint.asynchronous=false would do, ..." where it fits but for what saves pass through; else empty.
std::string spare_staging(const RankMemory&);

}  // namespace fp
