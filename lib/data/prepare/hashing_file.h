// Writes a file sequentially and hashes it.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>

#include "data/formats/block_hashes.h"
#include "data/formats/manifest.h"

struct XXH3_state_s;

namespace fp {

// All functions throw DataError naming the file and the system's error.
class HashingFile {
 public:
  explicit HashingFile(const std::filesystem::path& path);
  void write(std::span<const std::byte> bytes);
  // Flushes to disk (fsync) and closes. The record's name is the file's name without its folder.
  FileRecord close();
  // Returns the hashes of each MiB. May be called once, after close().
  BlockHashes take_block_hashes() { return blocks_.finish(); }

 private:
  [[noreturn]] void fail(const char* what) const;

  struct Close {
    void operator()(std::FILE* file) const;
  };
  struct FreeState {
    void operator()(XXH3_state_s* state) const;
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::unique_ptr<XXH3_state_s, FreeState> state_;
  BlockHasher blocks_;
  uint64_t bytes_ = 0;
};

}  // namespace fp
