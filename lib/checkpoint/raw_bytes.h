// Bytes at known places in a file, past the library that made it: HDF5 takes one thread at a time and copies more.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <vector>

namespace fp {

// A file open for reading; threads may read at the same time. DataError naming the file when it cannot be opened or
// read, or ends too early; InfrastructureError when the file system fails for longer than a moment (base/retry.h).
class RawReader {
 public:
  explicit RawReader(std::filesystem::path path);
  ~RawReader();
  RawReader(const RawReader&) = delete;
  RawReader& operator=(const RawReader&) = delete;

  void read(void* to, size_t bytes, int64_t offset) const;

 private:
  void reopen() const;

  std::filesystem::path path_;
  mutable std::atomic<int> fd_;
  mutable std::mutex mutex_;
  mutable std::vector<int> stale_;  // handles that were replaced
};

// Writes into a file that is open for writing. DataError naming `path` on failure.
void write_raw(int fd, const std::filesystem::path& path, const void* from, size_t bytes, int64_t offset);

}  // namespace fp
