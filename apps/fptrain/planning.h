// Planning for commands: finds the cluster description and runs the planner on a spec.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/cluster/cluster.h"
#include "config/run_spec.h"
#include "ops/ops.h"
#include "planner/plan.h"
#include "train/comparison.h"

namespace fp {

// Returns the spec with model.vocab set to that of the data's tokenizer if it is 0.
RunSpec with_vocab_of_data(RunSpec);

// Loads the cluster description `named`, else that of parallel.cluster. Returns nullopt if both are empty. Throws
// ConfigError if the file does not exist.
std::optional<ClusterSpec> cluster_for(const RunSpec&, const std::string& named = {});

// For commands that plan for other ranks than their own: if the section has no plan for several ranks, adds the
// setting that leaves the plan to the planner, logs that, and returns true: the spec must be loaded again.
bool leave_plan_open(const ParallelSection&, int ranks, std::vector<std::string>& sets);

// Returns the error message of `fptrain plan` for a spec with open keys and no cluster description.
std::string missing_cluster_message();

// The plan for the open keys of a spec, and the prediction for it, if there is one.
struct Planned {
  std::optional<Plan> plan;  // nullopt: the spec has no open keys
  std::optional<Forecast> forecast;
};
// Chooses the open keys of a spec for `ranks` ranks of a cluster and predicts its time. With `resumes`, keeps the plan
// of a run that has saved if that plan is legal for `ranks` ranks and fits. Throws ConfigError if no plan fits.
Planned plan_training(const RunSpec&, int ranks, const ClusterSpec&, bool resumes);

// Returns advice for a spec that does not fit on this machine, such as "nearest plan that fits: train.micro_batch=2".
// The spec must have model.vocab.
std::string nearest_here(const RunSpec&, int ranks, int ranks_per_node, const Ops&);

// Convert to text and back, to send a plan to other ranks.
std::string to_text(const Planned&);
Planned planned_from_text(const std::string&);

}  // namespace fp
