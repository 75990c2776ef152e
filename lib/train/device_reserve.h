// Memory of a GPU that libraries take for themselves after a run's arena has been allocated: the one place that says
// how much of it a run leaves alone. Estimates, which no GPU has confirmed yet.
#pragma once

#include <cstddef>

#include "comm/counting.h"

namespace fp {

// Kernels of cuBLASLt and cuDNN, which are loaded when they are first called.
constexpr size_t kReservedForLibraries = size_t{768} << 20;
// Channel buffers of a communicator, which NCCL allocates in its first collective.
constexpr size_t kReservedForGroup = size_t{512} << 20;
// Two neighbouring stages of a pipeline have a communicator for each direction, and messages need fewer channels.
constexpr size_t kReservedForPair = size_t{128} << 20;

// Bytes that a rank with these communicators leaves alone on its GPU.
constexpr size_t device_reserve(const Communicators& c) {
  return kReservedForLibraries + static_cast<size_t>(c.groups) * kReservedForGroup +
         static_cast<size_t>(c.pairs) * kReservedForPair;
}

}  // namespace fp
