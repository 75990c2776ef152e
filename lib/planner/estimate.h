// Estimates the time and the memory of one plan on a cluster.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include "config/run_spec.h"
#include "dryrun/dry_run.h"
#include "planner/costs.h"

namespace fp {

// Seconds of a step on the busiest rank.
struct StepTime {
  double total = 0;
  double compute = 0;  // ops of the micro-batches
  double exposed = 0;  // communication that the rank waits for
  double bubble = 0;   // waiting for other pipeline ranks
  double update = 0;   // norm, optimizer, and all-gather of the updated weights
  double copies = 0;   // copies between device and host, and updates by the host, that the rank waits for
};

// Memory of the rank that needs most.
struct RankMemory {
  int rank = 0;
  Prediction prediction;                       // by dry run; empty in quick estimates
  int64_t bytes = 0;                           // memory that the rank needs, reserve of the device included
  int64_t available = 0;                       // memory on its device that a plan may use
  int64_t headroom = 0;                        // memory on its device that a plan leaves free
  int64_t node_bytes = 0, node_available = 0;  // host memory of all ranks of the node that needs most
  // Host memory of that node for staging areas of background saves, and for what is offloaded.
  int64_t node_staging = 0, node_offloaded = 0;
  // Bytes of the rank's device; on CPUs those that the run allocates and does not keep in the host's arena. And the
  // budgets that the run spec sets for these bytes and for those of the node's host memory.
  int64_t device_bytes = 0;
  int64_t device_budget = kNoBudget, host_budget = kNoBudget;

  static constexpr int64_t kNoBudget = std::numeric_limits<int64_t>::max();
  int64_t host_bytes() const { return node_staging + node_offloaded; }
  bool fits() const { return missing() <= 0; }
  // Largest excess over the available memory and the budgets, in bytes; 0 or less if the plan fits.
  int64_t missing() const {
    return std::max({bytes - available, node_bytes - node_available, over_device_budget(), over_host_budget()});
  }
  int64_t over_device_budget() const { return device_bytes - device_budget; }
  int64_t over_host_budget() const { return host_bytes() - host_budget; }
};

struct Estimate {
  RunSpec spec;  // resolved, parallel.data filled in
  int ranks = 1;
  RankMemory memory = {};
  StepTime time = {};
  double tokens_per_s = 0;
  double model_tflops = 0;                   // per rank, by model_flops_per_token
  double mfu = 0;                            // 0: the cluster's peak rate is unknown
  double bubble = 0;                         // fraction of a step
  std::optional<double> between_nodes = {};  // bytes that leave a node in a step, if they were asked for
};

// Largest error of the memory and the time of a quick estimate, relative to the exact ones.
constexpr double kQuickEstimateError = 0.1;

// Interface for estimating the time and memory of a plan on a cluster; tests provide a fake. The vocabulary of every
// spec must be known. Each call throws ConfigError for a plan that is not legal.
class PlanEstimator {
 public:
  virtual ~PlanEstimator() = default;
  // Within kQuickEstimateError, without a dry run of whole steps; memory has no `prediction`.
  virtual Estimate quick_estimate(const RunSpec&, int ranks) = 0;
  // Exact time; memory by dry runs of only the one or two ranks that are expected to need most.
  virtual Estimate estimate(const RunSpec&, int ranks) = 0;
  // Exact memory of the rank that needs most.
  virtual RankMemory memory(const RunSpec&, int ranks) = 0;
};

// Estimates by dry runs. Caches the costs of layers between plans of a run, and keeps a reference to the cluster.
class Estimator final : public PlanEstimator {
 public:
  // `cpu`: see counting_ops_for().
  explicit Estimator(const ClusterSpec&, const Ops* cpu = nullptr);
  ~Estimator() override;
  Estimate quick_estimate(const RunSpec&, int ranks) override;
  Estimate estimate(const RunSpec&, int ranks) override;
  RankMemory memory(const RunSpec&, int ranks) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fp
