// Times an UpdateSchedule from a few rates, and chooses the share of the subgroups that the device updates.
//
// Resources are the two lanes, the device, the host's cores and, if rounding is not a part of the host's update, a
// thread of the host that rounds. Where the host's memory is a limit, all that use it at a time are slowed down alike:
// an update on the host reads and writes there, but so does every copy.
#pragma once

#include <span>

#include "optim/update_schedule.h"

namespace fp {

// Rates of a rank, while the other ranks of its node work too.
struct UpdateRates {
  double host_update = 0;    // parameters/s
  double host_convert = 0;   // parameters/s that a thread rounds to 16 bits; 0: done by the update itself
  double link = 0;           // bytes/s in each direction
  double device_update = 0;  // parameters/s
  double host_memory = 0;    // bytes/s, read plus written; 0: no limit, or one that the other rates include
};

// Bytes of a parameter.
struct UpdateBytes {
  double state = 12;    // that passes through the device, one way
  double gradient = 4;  // that is sent during the update; 0: it is on the host already
  double weights = 2;   // that is sent back
  // Where weights and gradients are in host memory: those that pass through the device beside the state, into it and
  // out of it.
  double gradient_in = 0, weights_out = 0;
};

// Bytes of host memory that an update of a parameter by the host reads and writes, rounding apart.
constexpr double host_traffic(const UpdateBytes& b) { return 2 * b.state + 4; }
// Returns the rates with a host memory that the host's update alone saturates.
UpdateRates bound_by_host_memory(UpdateRates, const UpdateBytes&);

// Seconds of an update, and those during which each resource works.
struct UpdateTime {
  double total = 0;
  double to_host = 0, to_device = 0, device = 0, host = 0, convert = 0;
};

// `elements`: by subgroup. As on a device, a copy starts after the updates of the device that were issued before it.
UpdateTime simulate(const UpdateSchedule&, std::span<const int64_t> elements, const UpdateRates&,
                    const UpdateBytes& = {});

// Returns the seconds per parameter of an interleaved update without its beginning and end: those of the resource that
// needs most. Where the host's memory is shared, an update may take up to a third longer, as it slows others down.
double model_seconds(double device_share, const UpdateRates&, const UpdateBytes& = {});
// Returns the share with which a simulated update is fastest, of that of the model and multiples of 1/32.
double best_device_share(const UpdateRates&, const UpdateBytes& = {});

}  // namespace fp
