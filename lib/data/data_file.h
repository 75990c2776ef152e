// The files of datasets, read at places by pread: a disk that fails is an error naming the file, not a signal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "data/block_hashes.h"

namespace fp {

// Bytes that are read at places: those of a file, or some in memory.
class ByteReader {
 public:
  virtual ~ByteReader() = default;
  virtual uint64_t size() const = 0;
  // Copies bytes [at, at + out.size()), which must lie inside. Thread-safe.
  virtual void read(uint64_t at, std::span<std::byte> out) const = 0;

  // The number stored at byte `at`, little endian, of any alignment.
  template <class T>
  T number(uint64_t at) const {
    T value;
    read(at, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
};

class BytesInMemory : public ByteReader {
 public:
  // The bytes must outlive it.
  explicit BytesInMemory(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  void read(uint64_t at, std::span<std::byte> out) const override {
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + at, out.size());
  }

 private:
  std::span<const std::byte> bytes_;
};

// All of a process's share a bounded number of open descriptors and a cache of pages, so a dataset may have any number
// of files of any size. Every read from the disk says progress(). Errors: as ReadableFile's (base/readable_file.h), and
// DataError naming the file when it ends early.
class DataFile : public ByteReader {
 public:
  // Looks its size up.
  explicit DataFile(const std::filesystem::path& path);
  // Of this size, which is only looked at when something is read. With `hashes`, each MiB is compared with its hash
  // when the process first reads a part of it: DataError naming the file and the place where it has changed.
  DataFile(const std::filesystem::path& path, uint64_t bytes, BlockHashes hashes = {});
  ~DataFile() override;
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  const std::string& name() const { return name_; }
  uint64_t size() const override { return bytes_; }
  void read(uint64_t at, std::span<std::byte> out) const override;
  // The same without the cache and without comparing hashes, for who reads a file from front to back.
  void read_past_cache(uint64_t at, std::span<std::byte> out) const;

  // What the cache holds at most, of all files of the process together.
  static constexpr size_t kPageBytes = size_t{64} << 10, kMostPages = 128;
  // Bytes that this process has read from the disk so far through all of them.
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
  mutable std::vector<bool> checked_;  // of each block that has a hash
};

}  // namespace fp
