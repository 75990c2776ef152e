// Writes one split of a prepared folder: token shards and the index of its documents (docs/data-format.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "data/formats/manifest.h"
#include "data/prepare/hashing_file.h"

namespace fp {

class SplitWriter {
 public:
  // token_bytes: bytes per token, 2 or 4. shard_tokens: tokens per shard, > 0.
  SplitWriter(const std::filesystem::path& folder, Split split, int token_bytes, uint64_t shard_tokens);

  // Appends one document: its tokens, end-of-text token included, and the length of its text in bytes. `loss_mask`: 0
  // or 1 for each token, or empty in every call.
  void append(std::span<const int32_t> tokens, uint64_t text_bytes, std::span<const uint8_t> loss_mask = {});
  // Closes all files and returns their record. Nothing may be appended afterwards.
  SplitRecord finish();
  // Returns the highest id appended so far, -1 when there is none.
  int32_t highest_id() const { return highest_id_; }

 private:
  void open_shard(bool masked);
  void close_shard();
  FileRecord write_hashes();
  void write_tokens(std::span<const int32_t> tokens);

  std::filesystem::path folder_;
  Split split_;
  int token_bytes_;
  uint64_t shard_tokens_;
  HashingFile index_;
  std::optional<HashingFile> shard_, mask_;
  uint64_t in_shard_ = 0;
  int32_t highest_id_ = -1;
  SplitRecord record_;
  BlockHashes shard_hashes_, mask_hashes_;
  std::vector<uint16_t> narrow_;
};

}  // namespace fp
