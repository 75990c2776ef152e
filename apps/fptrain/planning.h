// What commands need to plan: the cluster that is meant, and what the planner makes of a spec.
#pragma once

#include <optional>
#include <string>

#include "config/cluster.h"
#include "config/run_spec.h"
#include "ops/ops.h"
#include "train/comparison.h"

namespace fp {

// The spec with the vocabulary that the data's tokenizer has, where it leaves it to that.
RunSpec with_vocab_of_data(RunSpec);

// Of the file that was named, else of parallel.cluster; nullopt where neither is.
std::optional<ClusterSpec> cluster_for(const RunSpec&, const std::string& named = {});

// What `fptrain plan` says where open keys meet no cluster.
std::string needs_cluster();

// What training is to do on a cluster, chosen where the spec leaves keys open, and what it will take there. ConfigError
// when nothing fits.
struct Planned {
  RunSpec spec;
  std::optional<Forecast> forecast;
};
// `resumes`: a run directory's own plan is kept where it is one for as many ranks.
Planned plan_training(const RunSpec&, int ranks, const ClusterSpec&, bool resumes);

// "nearest plan that fits: train.micro_batch=2", of a spec with its vocabulary that does not fit this machine.
std::string nearest_here(const RunSpec&, int ranks, int ranks_per_node, const Ops&);

// As text and back, for other ranks.
std::string to_text(const Planned&);
Planned planned_from_text(const std::string&);

}  // namespace fp
