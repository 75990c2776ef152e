// Reads dataset files at given offsets with pread rather than a memory map, so that a failing disk is an error that
// names the file and not a signal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "data/formats/block_hashes.h"

namespace fp {

// A sequence of bytes that can be read at any offset: a file, or memory.
class ByteReader {
 public:
  virtual ~ByteReader() = default;
  virtual uint64_t size() const = 0;
  // Copies bytes [at, at + out.size()), which must lie inside, to `out`. Thread-safe.
  virtual void read(uint64_t at, std::span<std::byte> out) const = 0;

  // Returns the number stored at byte `at`, little endian, with any alignment.
  template <class T>
  T number(uint64_t at) const {
    T value;
    read(at, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
};

class BytesInMemory : public ByteReader {
 public:
  // Keeps a reference to `bytes`.
  explicit BytesInMemory(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  void read(uint64_t at, std::span<std::byte> out) const override {
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + at, out.size());
  }

 private:
  std::span<const std::byte> bytes_;
};

// A file of a dataset. All objects of a process share a bounded number of open descriptors and a page cache, so a
// dataset may have any number of files of any size. Every read from the disk calls progress() (base/progress.h). Throws
// what ReadableFile throws (io/readable_file.h), and DataError naming the file when it ends early.
class DataFile : public ByteReader {
 public:
  // Determines the size of the file.
  explicit DataFile(const std::filesystem::path& path);
  // Takes the size as given; it is verified only when the file is read. With `hashes`, each MiB is compared with its
  // hash when the process first reads a part of it: throws DataError naming the file and the position of the change.
  DataFile(const std::filesystem::path& path, uint64_t bytes, BlockHashes hashes = {});
  ~DataFile() override;
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  const std::string& name() const { return name_; }
  uint64_t size() const override { return bytes_; }
  void read(uint64_t at, std::span<std::byte> out) const override;
  // Like read(), but without the cache and without comparing hashes, for sequential readers.
  void read_past_cache(uint64_t at, std::span<std::byte> out) const;

  // Limits of the page cache that all files of the process share.
  static constexpr size_t kPageBytes = size_t{64} << 10, kMaxPages = 128;
  // Returns the bytes that this process has read from the disk through all of its DataFiles so far.
  static uint64_t bytes_read();

 private:
  using Page = std::vector<std::byte>;
  std::shared_ptr<Page> page(uint64_t number) const;
  std::shared_ptr<Page> read_checked(uint64_t page_number) const;
  bool needs_check(uint64_t block) const;

  std::string name_;
  uint64_t id_, bytes_;
  BlockHashes hashes_;
  mutable std::mutex mutex_;
  mutable std::vector<bool> checked_;  // for each block that has a hash
};

}  // namespace fp
