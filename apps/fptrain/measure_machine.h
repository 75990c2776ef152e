// The machine this runs on, as a cluster description.
#pragma once

#include <vector>

#include "planner/measured.h"

namespace fp {

struct MeasuredMachine {
  ClusterSpec cluster;  // its disk was not measured
  DeviceRates rates;
  std::vector<LinkSample> links;
};

// Called by all ranks of the world, `everybody`, which measure at the same time; `quick`: in some seconds, less exact.
MeasuredMachine measure_machine(Ops&, World&, Group& everybody, bool quick);

}  // namespace fp
