// Resident memory of this process, as the kernel counts it.
#pragma once

#include <cstdint>

namespace fp {

struct MemoryUse {
  int64_t resident_bytes = 0;  // now
  int64_t peak_bytes = 0;      // highest since the process began or since reset_peak_memory()
};

MemoryUse memory_use();

// Starts a new peak from the present resident set. False when the kernel does not allow it: the peak is then the
// process's lifetime peak.
bool reset_peak_memory();

}  // namespace fp
