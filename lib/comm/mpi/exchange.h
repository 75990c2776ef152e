// Collectives as point-to-point messages, in one or two phases with sums in between. Messages are tagged by call and
// phase, so a rank may enter the second phase whatever else it has started meanwhile.
#pragma once

#include <functional>
#include <vector>

#include "comm/comm.h"

namespace fp {

struct ExchangePhase {
  std::function<void()> prepare;  // called when the phase before is complete; may be empty
  std::vector<HostMessage> messages;
};

// Returns the phases of rank `rank` of `size` for a call whose tensors are in host memory. `scratch` has
// sum_scratch_bytes() bytes. No rank sends more than is counted as sent, except in a broadcast: the root scatters the
// pieces, and each rank passes its own on.
std::vector<ExchangePhase> phases_of(const CommCall&, int rank, int size, std::byte* scratch);

}  // namespace fp
