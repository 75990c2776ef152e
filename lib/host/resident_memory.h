// Resident memory of this process as counted by the kernel.
#pragma once

#include <cstdint>

namespace fp {

struct MemoryUse {
  int64_t resident_bytes = 0;  // now
  int64_t peak_bytes = 0;      // highest since the process began or since reset_peak_memory()
  int64_t file_bytes = 0;      // now, pages of files: programs, libraries; the kernel can drop and read them again
};

MemoryUse memory_use();

// Resets the peak to the present resident set. Returns false when the kernel does not allow it: the peak then remains
// that of the process's lifetime.
bool reset_peak_memory();

}  // namespace fp
