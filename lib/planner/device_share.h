// The share of offloaded state that the device updates: its time by the rates of a cluster, and the best share.
#pragma once

#include <span>

#include "config/run_spec.h"
#include "optim/update_time.h"
#include "planner/costs.h"

namespace fp {

// Return the bytes per parameter that a rank's update of offloaded state moves, and the rates. On a CPU cluster, device
// and host are the same cores: they update at the same rate, one after the other. Throw ConfigError if the cluster
// lacks a rate.
UpdateBytes update_bytes(const RunSpec&);
UpdateRates update_rates(const RunSpec&, const CostModel&);

// Returns the seconds for which the device waits, for copies and for the host, in an update of `parameters` parameters
// with the run's device share.
double update_waits(const RunSpec&, const CostModel&, double parameters);

// Returns the share with which updates are fastest. Where the device is the host, 0 moves least; without a rate of the
// host's updates it is 1.
double best_device_share(const RunSpec&, const CostModel&);

}  // namespace fp
