// Whether ranks that should hold the same state do: a flipped bit, a race or a broken link shows here before it shows
// in the loss.
#pragma once

#include <string>

#include "model/groups.h"
#include "model/param_store.h"

namespace fp {

// Compares, over the ranks that hold copies, hashes of all weights, masters and moments: what ZeRO leaves whole over
// the data group, replicated parameters and copies of kv heads over the tensor group. Every rank calls it. DeviceError
// on all ranks, naming the first parameter and the ranks that differ from the first.
void check_replicas(const ParamStore&, Ops&, const Groups&);

}  // namespace fp
