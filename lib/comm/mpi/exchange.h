// A communication as messages between two ranks each, in one or two stages with sums in between. Point to point and
// tagged by number and stage, so a rank may go on to a second stage whatever else it has started meanwhile.
#pragma once

#include <functional>
#include <vector>

#include "comm/comm.h"

namespace fp {

struct Stage {
  std::function<void()> prepare;  // when the stage before is complete; may be empty
  std::vector<HostMessage> messages;
};

// Of the call of rank `rank` of `size`; tensors in host memory. Nobody sends more than is counted as sent, but for
// broadcast: the root deals the pieces out, and each rank passes its own on.
std::vector<Stage> stages_of(const CommCall&, int rank, int size, std::byte* scratch);

}  // namespace fp
