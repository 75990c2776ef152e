// Atomic file writes, read-only memory maps, and content hashes.
//
// Functions that read retry transient failures of the file system (io/retry.h), then throw InfrastructureError.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace fp {

// Returns whether `path` exists, following symbolic links. Throws DataError with the reason if that cannot be
// determined, as in a folder without search permission.
bool path_exists(const std::filesystem::path& path);
// Returns the size in bytes of a regular file; nullopt when there is none. Throws DataError as above.
std::optional<uint64_t> size_of_file(const std::filesystem::path& path);

// Returns the error in the format of other messages: "folder/file: Permission denied".
std::string message_of(const std::filesystem::filesystem_error& error);

// Returns the exit code for the errno of a failed file call: infrastructure if the error is transient (EIO, ESTALE,
// ETIMEDOUT and the like, see is_transient), else bad_data.
ExitCode exit_code_of(int error);
// Throws a DataError with that exit code: "PATH: cannot WHAT: Stale file handle".
[[noreturn]] void fail_file(const std::filesystem::path& path, const char* what, int error);

// Returns the whole file as text. Throws DataError naming the path when it cannot be read, MemoryError when it does not
// fit into memory.
std::string read_file(const std::filesystem::path& path);

// Writes a file with an unpredictable name beside `path` (io/new_file.h), syncs it, renames it over `path` and syncs
// the folder. A symbolic link at `path` is replaced, not followed.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

// Renames a broken file or folder to "NAME.broken-1", or to the next free number, and returns the new path. Throws
// DataError on failure.
std::filesystem::path set_aside_broken(const std::filesystem::path& path);

// Calls fsync on a file or a folder. Throws DataError with errno's text on failure; a file system without fsync for
// folders (EINVAL, ENOTSUP) is not a failure.
void fsync_path(const std::filesystem::path& path);

// Calls rename(2). Returns false with errno set when it failed. A network file server whose reply was lost answers
// ENOENT when the kernel repeats the request; that counts as success if `to` is the renamed file.
bool rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

// Hashes bytes that are added piece by piece.
class ContentHash {
 public:
  ContentHash();
  ~ContentHash();
  void add(const void* data, size_t bytes);
  std::string digits() const;  // equals hash_bytes() of all bytes so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns the 128-bit XXH3 hash as 32 hex digits.
std::string hash_bytes(const void* data, size_t bytes);
std::string hash_file(const std::filesystem::path& path);

// Returns the files that match a shell pattern ("shard_*.bin"), sorted by name; a path that exists matches itself.
// Empty when there are none. Throws DataError if it cannot be determined whether the path exists.
std::vector<std::filesystem::path> matching_files(const std::string& pattern);

// A read-only memory map of a whole file. Movable; an empty file maps to an empty span.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data_), size_ / sizeof(T)};
  }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace fp
