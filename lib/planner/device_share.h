// The share of offloaded state that the device updates: its time by the rates of a cluster, and the best share.
#pragma once

#include <span>

#include "config/run_spec.h"
#include "optim/update_time.h"
#include "planner/costs.h"

namespace fp {

// Returns what a rank's update of offloaded state moves, and at which rates. Where the device is the host, both update
// at the same rate, and not at the same time. Throws ConfigError if the cluster lacks a rate.
UpdateBytes update_bytes(const RunSpec&);
UpdateRates update_rates(const RunSpec&, const CostModel&);

// Returns the seconds that an update of `parameters` parameters by the run's share waits for copies and for the host.
double update_waits(const RunSpec&, const CostModel&, double parameters);

// Returns the share with which updates are fastest. Where the device is the host, 0 moves least; without a rate of the
// host's updates it is 1.
double best_device_share(const RunSpec&, const CostModel&);

}  // namespace fp
