// Files that are read at places, by calls that outlast the bad moments of a network file system.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

namespace fp {

// By these a file that was changed is told from one that was not, as long as nobody sets its time back.
struct FileFacts {
  uint64_t bytes = 0;
  int64_t modified_ns = 0;  // since 1970
  uint64_t inode = 0;

  bool operator==(const FileFacts&) const = default;
};

// DataError naming the path where it is no regular file or cannot be seen; failures that may pass as below.
FileFacts facts_of(const std::filesystem::path& path);

// A regular file, open for reading. What may pass is tried again (base/retry.h), by the file's path, since a handle
// that a server has forgotten stays so; then it is an InfrastructureError that names the file, the place and the
// reason. What cannot pass is a DataError. Thread-safe.
class ReadableFile {
 public:
  explicit ReadableFile(const std::filesystem::path& path);

  // Reads up to out.size() bytes from byte `at` on and returns how many: fewer only where the file ends.
  size_t read(uint64_t at, std::span<std::byte> out);

 private:
  struct Descriptor;
  std::shared_ptr<const Descriptor> open() const;
  std::shared_ptr<const Descriptor> current();
  void reopen();

  std::filesystem::path path_;
  std::mutex mutex_;
  std::shared_ptr<const Descriptor> descriptor_;
};

// What ReadableFile asks of the system, as pread(2). A test may put its own in its place, while no file is read; empty:
// the system's.
using ReadCall = std::function<ssize_t(int descriptor, void* to, size_t bytes, off_t at)>;
void set_read_call(ReadCall call);

}  // namespace fp
