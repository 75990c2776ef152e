// Compares the time, memory and traffic that were predicted for a run with those measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/record.h"

namespace fp {

// The planner's prediction of the run (planner/estimate.h).
struct Forecast {
  std::string cluster;  // name of the cluster description that it is based on
  double step_s = 0;
  double tokens_per_s = 0;
  std::string json;  // the whole plan with its prediction: plan.json of the run directory
};

// Returns the bytes that a rank sends, not counting host values.
int64_t sent_bytes(const TrafficTable&);

// Measured by this process. `step_ms` has the time of each step in order; the comparison ignores the first two steps as
// warm-up when there are more.
struct MeasuredRun {
  std::vector<double> step_ms;
  int64_t peak_bytes = 0;
  int64_t sent_bytes = 0;  // in the last step
};
struct PredictedRun {
  std::optional<Forecast> forecast;
  int64_t peak_bytes = 0;
  int64_t sent_bytes = 0;
};

// Returns a table of the predicted values and their measurements for the log. Empty when no step was run.
std::string compare_with_prediction(const PredictedRun&, const MeasuredRun&);

}  // namespace fp
