// Measures how fast training steps run, and which ops take the time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/op_timer.h"
#include "config/run_spec.h"
#include "ops/counting.h"
#include "ops/timing/timing.h"

namespace fp {

struct StepBenchmark {
  std::string device;
  int64_t tokens = 0;                // of one step
  std::vector<double> step_seconds;  // each measured step
  double median_seconds = 0;
  double tokens_per_s = 0;
  double model_flops_per_token = 0;
  PeakRate peak;                // of the device in the compute type
  double mfu = 0;               // tokens_per_s * model_flops_per_token / peak.flops
  int64_t predicted_bytes = 0;  // used on the device before the run, plus the dry run's prediction
  int64_t peak_bytes = 0;       // peak during the run: of the host's resident set, or of the GPU's memory
  Timings profile;              // of one more step, synchronised after each call
  double profile_seconds = 0;
  double gemm_alone_seconds = 0;  // sum over the step's matrix products, each timed alone
};

// Trains on random tokens: `warmup` steps, then `steps` measured ones, then, if `profile`, one profiled. The spec must
// have model.vocab.
StepBenchmark benchmark_step(const RunSpec&, int warmup, int steps, bool profile, Ops&, CountingOps&);

}  // namespace fp
