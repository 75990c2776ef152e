// Whether a run can be arranged on each allocation that its job may get.
#pragma once

#include "config/run_spec.h"

namespace fp {

// ConfigError for the first number of nodes, from `min_nodes` to `max_nodes`, whose ranks cannot share the run, with
// the numbers that can. A run whose degrees are open needs some legal plan; whether it fits is seen where it runs.
void check_sizes(const RunSpec&, int min_nodes, int max_nodes, int ranks_per_node);

}  // namespace fp
