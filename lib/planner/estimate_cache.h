// EstimateCache: the estimates of a search, quick ones of many plans and exact ones of some.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "planner/search.h"

namespace fp {

// Limits for the memory fraction of a quick estimate: a plan surely fits up to kSurely, and may fit up to kPerhaps.
constexpr double kSurely = 1 - kQuickEstimateError, kPerhaps = 1 + kQuickEstimateError;

class EstimateCache {
 public:
  // Keeps references to the spec and the estimator.
  EstimateCache(const RunSpec& spec, int ranks, PlanEstimator& estimator)
      : spec_(spec), ranks_(ranks), estimator_(estimator) {}

  // Returns the quick estimate of a plan; nullptr if the plan is not legal.
  const Estimate* quick_estimate(const Plan&);
  // Returns the exact estimate of a plan that has a quick one; estimate.ranks is 0 if the plan is not legal after all.
  const Choice& exact_estimate(const Plan&);
  // Computes the exact memory of the plan's worst rank and stores it in the plan's estimate.
  const RankMemory& exact_memory(const Plan&);

  bool none() const { return known_.empty(); }
  // Returns all legal plans, fastest first.
  std::vector<const Choice*> ranking() const;
  // Returns the fastest plan of those wanted with an exact estimate that fits; nullptr if there is none.
  const Choice* fastest_fitting(const std::function<bool(const Plan&)>& wanted) const;
  // Returns the memory fraction, corrected by the least error that exact estimates of this schedule and ZeRO stage have
  // shown quick ones to have.
  double likely_memory_fraction(const Choice&) const;

  int quick_estimates() const { return quick_estimates_; }
  int estimates() const { return estimates_; }
  const std::string& first_error() const { return first_error_; }  // of the first plan that was not legal; empty: none

 private:
  const RunSpec& spec_;
  const int ranks_;
  PlanEstimator& estimator_;
  std::map<Plan, Choice> known_;  // ranks = 0: not legal
  std::map<std::pair<PipelineSchedule, int64_t>, double>
      corrections_;  // by schedule and ZeRO stage: minimum of exact / quick memory fraction
  std::string first_error_;
  int quick_estimates_ = 0, estimates_ = 0;
};

}  // namespace fp
