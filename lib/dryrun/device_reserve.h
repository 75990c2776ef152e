// GPU memory that a run leaves free for libraries, which allocate it after the run's arena. The only place with
// constants for this. They are estimates: a run of one rank on an H200 took less; several ranks were not measured.
#pragma once

#include <cstddef>

#include "comm/counting.h"

namespace fp {

// Kernels of cuBLASLt and cuDNN, which are loaded on their first call.
constexpr size_t kReservedForLibraries = size_t{768} << 20;
// Channel buffers of a communicator, which NCCL allocates when it connects the ranks of the group.
constexpr size_t kReservedForGroup = size_t{512} << 20;
// Two ranks of a pipeline that exchange messages have a communicator for each direction, and messages need fewer
// channels.
constexpr size_t kReservedForPair = size_t{128} << 20;

// Returns the bytes that a rank with these communicators leaves free on its GPU.
constexpr size_t device_reserve(const Communicators& c) {
  return kReservedForLibraries + static_cast<size_t>(c.groups) * kReservedForGroup +
         static_cast<size_t>(c.pairs) * kReservedForPair;
}

}  // namespace fp
