// Checks that a run can be arranged on every allocation that its Slurm job may get.
#pragma once

#include "config/run_spec.h"

namespace fp {

// Throws ConfigError if for some number of nodes from `min_nodes` to `max_nodes` the run cannot be arranged on that
// many nodes; the message has the reason for the first one and the numbers that are legal. A spec with open keys needs
// a legal plan for each number of nodes.
void check_sizes(const RunSpec&, int min_nodes, int max_nodes, int ranks_per_node);

// Throws ConfigError if the run does not fit in the memory of `nodes` nodes of the cluster that parallel.cluster
// describes, with the nearest plan that fits, or if the cluster has fewer nodes, fewer ranks per node or another
// device. Without a description, or if the search for a plan runs out of time, only logs that nothing was checked.
void check_memory(const RunSpec&, int nodes, int ranks_per_node);

}  // namespace fp
