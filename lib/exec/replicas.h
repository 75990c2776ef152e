// Whether ranks that should hold the same state do: a flipped bit, a race or a broken link shows here before it shows
// in the loss.
#pragma once

#include <string>

#include "model/model.h"

namespace fp {

// Compares, over the ranks that hold copies, weights, masters and moments: what ZeRO leaves whole over the data group,
// replicated parameters over the tensor group, kv heads over those of its ranks that hold copies of them, an embedding
// that both ends of a pipeline hold. One pass over the state, and 64 bytes from each rank to each group; hashes of
// every parameter are exchanged only on a difference. Takes 8 bytes of the arena a parameter and kind of state, between
// steps. Every rank calls it. DeviceError on all, naming a parameter and two ranks that differ.
void check_replicas(Model&, Ops&);

}  // namespace fp
