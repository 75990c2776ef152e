// Who says what a plan takes and needs: the Estimator, or a made-up one in tests.
#pragma once

#include "planner/estimate.h"

namespace fp {

// Each throws ConfigError for a plan that cannot be had after all.
class Judge {
 public:
  virtual ~Judge() = default;
  virtual Estimate glance(const RunSpec&, int ranks) = 0;    // fast, within kGlanceError
  virtual Estimate estimate(const RunSpec&, int ranks) = 0;  // exact
  virtual RankMemory memory(const RunSpec&, int ranks) = 0;  // exact
};

constexpr double kGlanceError = 0.1;

class EstimatorJudge final : public Judge {
 public:
  explicit EstimatorJudge(const ClusterSpec& cluster) : estimator_(cluster) {}
  Estimate glance(const RunSpec& s, int ranks) override { return estimator_.glance(s, ranks); }
  Estimate estimate(const RunSpec& s, int ranks) override { return estimator_.estimate(s, ranks); }
  RankMemory memory(const RunSpec& s, int ranks) override { return estimator_.memory(s, ranks); }

 private:
  Estimator estimator_;
};

}  // namespace fp
