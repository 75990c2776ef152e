// Reads regular files at given offsets and retries transient failures, which network file systems have.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>

namespace fp {

// Size, modification time and inode of a file. They differ after a change of the file, unless its time is set back.
struct FileFacts {
  uint64_t bytes = 0;
  int64_t modified_ns = 0;  // since 1970
  uint64_t inode = 0;

  bool operator==(const FileFacts&) const = default;
};

// Returns the facts of a file. Throws DataError naming the path when it is not a regular file or cannot be examined,
// after retries (io/retry.h).
FileFacts facts_of(const std::filesystem::path& path);

// Opens a regular file for reading; the caller closes the descriptor. Throws DataError when the path is a symbolic link
// (which is not followed), a pipe (which is not waited for) or no regular file; other failures as fail_reading() does.
int open_plain_file(const std::filesystem::path& path);

enum class Symlinks { follow, refuse };

// A file that is open for reading. Thread-safe. Transient errors are retried (io/retry.h) and then thrown as
// InfrastructureError; permanent errors are thrown as DataError. Messages name the file, the offset and the reason.
class ReadableFile {
 public:
  // Opens a file. Before each retry it is opened again by its path, since a stale handle stays stale.
  explicit ReadableFile(std::filesystem::path path, Symlinks = Symlinks::follow);
  // Uses an open descriptor that the caller owns and that must outlive this object; `path` only names the file in
  // messages.
  ReadableFile(int descriptor, std::filesystem::path path);
  ~ReadableFile();

  // Reads up to out.size() bytes from offset `at` and returns how many: fewer only at the end of the file.
  size_t read(uint64_t at, std::span<std::byte> out) const;
  // Reads exactly `bytes` bytes. Throws DataError when the file ends earlier.
  void read_exactly(uint64_t at, void* to, size_t bytes) const;
  uint64_t bytes() const;  // size of the file
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Handle;  // closes its descriptor if it owns it
  std::shared_ptr<const Handle> open() const;
  std::shared_ptr<const Handle> current() const;
  // Repeats `attempt(descriptor)`, as with_retries() does, until it returns 0 or more; it reports failure by -1 and
  // errno.
  ssize_t patiently(const std::string& what, const std::function<ssize_t(int)>& attempt) const;

  std::filesystem::path path_;
  Symlinks symlinks_ = Symlinks::follow;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Handle> handle_;
};

// Writes all bytes at an offset of a file that is open for writing. Throws DataError naming `path` on failure.
void write_at(int descriptor, const std::filesystem::path& path, const void* from, size_t bytes, int64_t offset);

// The pread(2) that all reads call. Tests may replace it while no file is being read; an empty function restores the
// system's.
using ReadCall = std::function<ssize_t(int descriptor, void* to, size_t bytes, off_t at)>;
void set_read_call(ReadCall call);
ssize_t read_at(int descriptor, void* to, size_t bytes, off_t at);

}  // namespace fp
