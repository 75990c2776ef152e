// What a search has looked at: glances at many plans, exact looks at some of them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "planner/search.h"

namespace fp {

// How far off a glance may be: what fits below kSurely fits, what does not below kPerhaps does not.
constexpr double kSurely = 1 - kGlanceError, kPerhaps = 1 + kGlanceError;

class Looks {
 public:
  // Keeps references to the spec and the judge.
  Looks(const RunSpec& spec, int ranks, Judge& judge) : spec_(spec), ranks_(ranks), judge_(judge) {}

  // nullptr: it cannot be had.
  const Estimate* glance(const Plan&);
  // Of a plan that was glanced at; its estimate's ranks are 0 where it cannot be had after all.
  const Choice& exactly(const Plan&);
  // The memory of its worst rank, found anew, from now on part of its estimate.
  const RankMemory& on_every_rank(const Plan&);

  bool none() const { return looked_at_.empty(); }
  // All that could be had, fastest first.
  std::vector<const Choice*> ranking() const;
  // Of those looked at exactly that fit; nullptr where none does.
  const Choice* fastest_fitting() const;
  // Fullness, as far as exact looks at plans of this kind have shown by how much glances are too low at least.
  double likely_fullness(const Choice&) const;

  int glances() const { return glances_; }
  int estimates() const { return estimates_; }
  const std::string& trouble() const { return trouble_; }  // why a plan could not be had; empty: each could

 private:
  const RunSpec& spec_;
  const int ranks_;
  Judge& judge_;
  std::map<Plan, Choice> looked_at_;                          // ranks = 0: cannot be had
  std::map<std::pair<std::string, int64_t>, double> taught_;  // by schedule and ZeRO stage: least of exact / glanced
  std::string trouble_;
  int glances_ = 0, estimates_ = 0;
};

}  // namespace fp
