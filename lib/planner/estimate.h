// What one plan would need and take on a cluster, found by playing the run without memory.
#pragma once

#include <memory>
#include <string>

#include "config/run_spec.h"
#include "planner/costs.h"
#include "train/dry_run.h"

namespace fp {

// Seconds of a step, of the rank that has most to do.
struct StepTime {
  double total = 0;
  double compute = 0;  // ops of the micro-batches
  double exposed = 0;  // communication that the rank waits for
  double bubble = 0;   // waiting for other pipeline ranks
  double update = 0;   // norm, optimizer, and gathering its results
};

// Memory of the rank that needs most.
struct RankMemory {
  int rank = 0;
  Prediction prediction;                       // empty before it was looked at
  int64_t bytes = 0;                           // what has to be there for it, reserve of the device included
  int64_t available = 0;                       // on its device
  int64_t node_bytes = 0, node_available = 0;  // host memory, of all ranks of the node that needs most
  int64_t node_staging = 0;                    // of it, what saves beside training pass through
  bool fits() const { return bytes <= available && node_bytes <= node_available; }
  int64_t missing() const { return std::max(bytes - available, node_bytes - node_available); }
};

struct Estimate {
  RunSpec spec;  // resolved, parallel.data filled in
  int ranks = 1;
  RankMemory memory = {};
  StepTime time = {};
  double tokens_per_s = 0;
  double model_tflops = 0;  // of a rank, by model_flops_per_token
  double mfu = 0;           // 0: the cluster does not say what it is relative to
  double bubble = 0;        // share of a step, of pipelines
};

// Plays runs on one cluster; keeps what it found out about layers for the next plan.
class Estimator {
 public:
  // `vocab` must be known in every spec that is asked about. Keeps a reference to the cluster.
  explicit Estimator(const ClusterSpec&);
  ~Estimator();

  // The step is played, and so are one or two of the ranks that may need most memory; memory() makes sure. ConfigError
  // for a plan that is not legal.
  Estimate estimate(const RunSpec&, int ranks);
  // The memory alone, of the rank that does need most.
  RankMemory memory(const RunSpec&, int ranks);
  // Without playing whole steps: fast, near the exact ones, for choosing what is worth a look. Memory without
  // `prediction`, seconds within some percent.
  Estimate glance(const RunSpec&, int ranks);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fp
