// How fast training steps run, and where their time goes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/run_spec.h"
#include "ops/counting.h"
#include "ops/timing/timing.h"
#include "train/op_timer.h"

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
  int64_t predicted_bytes = 0;  // used on the device before the run, plus what the dry run needs
  int64_t peak_bytes = 0;       // most used during it: of the host's resident set, or of the GPU's memory
  Timings profile;              // of one more step, each call waited for
  double profile_seconds = 0;
  double gemm_alone_seconds = 0;  // the step's matrix products, each run by itself at its best rate
};

// Trains on random tokens: `warmup` steps, then `steps` measured ones, then one profiled. The spec's model must have
// its vocabulary.
StepBenchmark benchmark_step(const RunSpec&, int warmup, int steps, bool profile, Ops&, CountingOps&);

}  // namespace fp
