// How fast training steps run, and where their time goes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/run_spec.h"
#include "ops/counting.h"
#include "ops/timing/timing.h"

namespace fp {

struct StepBenchmark {
  int64_t tokens = 0;                // of one step
  std::vector<double> step_seconds;  // each measured step
  double median_seconds = 0;
  double tokens_per_s = 0;
  double model_flops_per_token = 0;
  int64_t predicted_bytes = 0;  // resident set before the run plus the arena of the dry run
  int64_t peak_bytes = 0;       // highest resident set
  Timings profile;              // of one more step, each call waited for
  double profile_seconds = 0;
  double gemm_alone_seconds = 0;  // the step's matrix products, each run by itself at its best rate
};

// Trains on random tokens: `warmup` steps, then `steps` measured ones, then one profiled. The spec's model must have
// its vocabulary.
StepBenchmark benchmark_step(const RunSpec&, int warmup, int steps, bool profile, Ops&, CountingOps&);

// Median seconds of one matrix product run alone, repeated for about `budget` seconds.
double time_gemm(Ops&, const GemmCall&, DType compute, double budget);

}  // namespace fp
