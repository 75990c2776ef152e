#include "data/prepare/split_writer.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace fp {

static_assert(std::endian::native == std::endian::little,
              "the files are little endian and are written as they lie in memory");

SplitWriter::SplitWriter(const std::filesystem::path& folder, Split split, int token_bytes, uint64_t shard_tokens)
    : folder_(folder),
      split_(split),
      token_bytes_(token_bytes),
      shard_tokens_(shard_tokens),
      index_(folder / fmt::format("{}.documents", name_of(split))) {
  FP_CHECK(token_bytes == 2 || token_bytes == 4, "tokens of {} bytes", token_bytes);
  FP_CHECK(shard_tokens > 0, "a shard holds at least one token");
  index_.write(std::as_bytes(std::span(&record_.tokens, 1)));
}

void SplitWriter::append(std::span<const int32_t> tokens, uint64_t text_bytes, std::span<const uint8_t> loss_mask) {
  const bool masked = !loss_mask.empty();
  FP_CHECK(!masked || loss_mask.size() == tokens.size(), "{} tokens, {} in the mask", tokens.size(), loss_mask.size());
  while (!tokens.empty()) {
    if (shard_ && in_shard_ == shard_tokens_) close_shard();
    if (!shard_) open_shard(masked);
    FP_CHECK(masked == mask_.has_value(), "some documents have a loss mask and others none");
    const size_t n = std::min<size_t>(tokens.size(), shard_tokens_ - in_shard_);
    write_tokens(tokens.first(n));
    tokens = tokens.subspan(n);
    if (masked) {
      mask_->write(std::as_bytes(loss_mask.first(n)));
      loss_mask = loss_mask.subspan(n);
    }
    in_shard_ += n;
    record_.tokens += n;
  }
  ++record_.documents;
  record_.text_bytes += text_bytes;
  index_.write(std::as_bytes(std::span(&record_.tokens, 1)));
}

void SplitWriter::open_shard(bool masked) {
  const std::string name = fmt::format("{}-{:05}", name_of(split_), record_.shards.size());
  shard_.emplace(folder_ / (name + ".tokens"));
  if (masked) mask_.emplace(folder_ / (name + ".mask"));
  in_shard_ = 0;
}

void SplitWriter::close_shard() {
  const auto close = [](HashingFile& file, std::vector<FileRecord>& records, BlockHashes& hashes) {
    records.push_back(file.close());
    const BlockHashes more = file.take_block_hashes();
    hashes.insert(hashes.end(), more.begin(), more.end());
  };
  close(*shard_, record_.shards, shard_hashes_);
  if (mask_) close(*mask_, record_.loss_masks, mask_hashes_);
  shard_.reset();
  mask_.reset();
}

void SplitWriter::write_tokens(std::span<const int32_t> tokens) {
  highest_id_ = std::max(highest_id_, *std::max_element(tokens.begin(), tokens.end()));
  if (token_bytes_ == 4) return shard_->write(std::as_bytes(tokens));
  FP_CHECK(highest_id_ <= 0xFFFF, "id {} does not fit 2 bytes", highest_id_);
  narrow_.assign(tokens.begin(), tokens.end());
  shard_->write(std::as_bytes(std::span(narrow_)));
}

SplitRecord SplitWriter::finish() {
  if (shard_) close_shard();
  record_.index = index_.close();
  record_.hashes = write_hashes();
  return record_;
}

FileRecord SplitWriter::write_hashes() {
  HashingFile file(folder_ / fmt::format("{}.hashes", name_of(split_)));
  for (const BlockHashes& hashes : {shard_hashes_, mask_hashes_, index_.take_block_hashes()})
    file.write(std::as_bytes(std::span(hashes)));
  return file.close();
}

}  // namespace fp
