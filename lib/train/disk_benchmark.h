// How fast a folder's disk takes and gives large files.
#pragma once

#include <cstdint>
#include <filesystem>

namespace fp {

struct DiskRates {
  int64_t bytes = 0;
  double write_bytes_per_s = 0;  // until fsync is done
  double read_bytes_per_s = 0;   // after the kernel was asked to forget the file
  double cached = 0;             // the share of the file that it still held: that much of the reading was from memory
};

// Writes a file of so many bytes of noise, reads it and removes it. DataError when the folder cannot be written to.
DiskRates benchmark_disk(const std::filesystem::path& folder, int64_t bytes);

}  // namespace fp
