// The dial: the plans of a run from the most memory of the device to the least, and what each GiB less costs.
#pragma once

#include "planner/search.h"

namespace fp {

struct DialRow {
  Choice choice;          // with an exact estimate
  std::string changed;    // keys that differ from the plan without savings, in the form of --set; empty: none
  double ms_per_gib = 0;  // milliseconds of a step for each GiB of device memory less than in the row before; first: 0
};

// Returns the variants of a plan with other savings (planner/savings.h) and ZeRO stages, of those that the spec leaves
// open, that fit in host memory. Leaves out a plan if another needs no more device memory and no more time, but not the
// given one. Those with most memory come first; they may not fit on the device.
std::vector<DialRow> turn_dial(const RunSpec&, const Plan&, int ranks, const ClusterSpec&, PlanEstimator&);

}  // namespace fp
