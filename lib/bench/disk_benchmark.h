// Measures how fast a folder's disk writes and reads large files.
#pragma once

#include <cstdint>
#include <filesystem>

namespace fp {

struct DiskRates {
  int64_t bytes = 0;
  double write_bytes_per_s = 0;  // including fsync
  double read_bytes_per_s = 0;   // after asking the kernel to drop the file from its cache
  double cached = 0;             // fraction of the file that stayed cached and was read from memory
};

// Writes a file of `bytes` random bytes, reads it and removes it. Throws DataError when the folder cannot be written
// to.
DiskRates benchmark_disk(const std::filesystem::path& folder, int64_t bytes);

}  // namespace fp
