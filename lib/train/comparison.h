// What a run was predicted to take, and what it took.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/record.h"

namespace fp {

// What a plan says of the run it was made for (planner/estimate.h).
struct Forecast {
  std::string cluster;  // whose figures it comes from
  double step_s = 0;
  double tokens_per_s = 0;
  std::string json;  // the whole plan with its prediction: plan.json of the run directory
};

// Bytes that a rank sends, host values aside.
int64_t sent_bytes(const TrafficTable&);

// Of this process, and of rank 0's steps. `step_ms`: each step's time, in order; the first ones, which warm up, do not
// count where there are more.
struct TakenByRun {
  std::vector<double> step_ms;
  int64_t peak_bytes = 0;
  int64_t sent_bytes = 0;  // in the last step
};
struct PredictedOfRun {
  std::optional<Forecast> forecast;
  int64_t peak_bytes = 0;
  int64_t sent_bytes = 0;
};

// For people: both side by side. Empty without a step.
std::string compare_with_prediction(const PredictedOfRun&, const TakenByRun&);

}  // namespace fp
