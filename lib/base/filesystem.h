// Files that are there whole or not at all, read-only memory maps, and content hashes.
//
// Functions that read retry while the file system fails transiently (base/retry.h), then throw an InfrastructureError.
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

// Whether something is there. DataError with the reason where that cannot be seen: a folder that may not be searched.
bool is_there(const std::filesystem::path& path);
// The bytes of a regular file; nothing when there is none. DataError as above.
std::optional<uint64_t> size_of_file(const std::filesystem::path& path);

// What is wrong, as other messages say it: "folder/file: Permission denied".
std::string message_of(const std::filesystem::filesystem_error& error);

// The exit code for an errno of a file call: infrastructure where the error is transient (EIO, ESTALE, ETIMEDOUT and
// the like, see is_transient), else bad_data.
ExitCode exit_code_of(int error);
// DataError with that code: "PATH: cannot WHAT: Stale file handle".
[[noreturn]] void fail_file(const std::filesystem::path& path, const char* what, int error);

// Whole file as text. DataError naming the path when it cannot be read.
std::string read_file(const std::filesystem::path& path);

// Write to a temporary name beside `path`, fsync, rename over it, fsync the folder.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

// Renames what is broken to "NAME.broken-1", or to the next number that is free, and returns where it is now. DataError
// where that cannot be done.
std::filesystem::path set_aside_broken(const std::filesystem::path& path);

// fsync of a file or a folder. DataError with errno's text on failure; of a folder, a file system that knows no such
// call has done what it can.
void fsync_path(const std::filesystem::path& path);

// rename(2); false with errno when it failed. A server that did it and whose answer was lost says ENOENT when the
// kernel asks again: that is done, too.
bool rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

// The hash of bytes that come piece by piece.
class ContentHash {
 public:
  ContentHash();
  ~ContentHash();
  void add(const void* data, size_t bytes);
  std::string digits() const;  // as hash_bytes() of them all

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// 128-bit XXH3 as 32 hex digits.
std::string hash_bytes(const void* data, size_t bytes);
std::string hash_file(const std::filesystem::path& path);

// The files that a shell pattern ("shard_*.bin") stands for, by name; a path that exists stands for itself. Empty when
// there are none; DataError where that cannot be seen.
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
