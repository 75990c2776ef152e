// Measures this machine and returns it as a cluster description.
#pragma once

#include <vector>

#include "planner/measured.h"

namespace fp {

struct MeasuredMachine {
  ClusterSpec cluster;  // without disk_gb_per_s, which is not measured
  DeviceRates rates;
  std::vector<LinkSample> links;
};

// Collective over `all_ranks`, the group of all ranks of the world, which measure at the same time. `quick` takes some
// seconds and is less exact.
MeasuredMachine measure_machine(Ops&, World&, Group& all_ranks, bool quick);

}  // namespace fp
