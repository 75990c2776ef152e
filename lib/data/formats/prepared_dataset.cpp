#include "data/formats/prepared_dataset.h"

#include "base/error.h"
#include "data/text/chat.h"
#include "data/tokenizer/source.h"
#include "io/filesystem.h"

namespace fp {
namespace {

constexpr uint64_t kMostTokens = uint64_t{1} << 56;  // so that no product of counts and bytes overflows

}  // namespace

PreparedDataset::PreparedDataset(const std::filesystem::path& folder, Split split, const OpenOptions& options)
    : Dataset(folder.string(), "prepared"), folder_(folder), split_(split), manifest_(read_manifest(folder)) {
  const std::string tokenizer_path = (folder / manifest_.tokenizer.name).string();
  if (const auto bytes = size_of_file(tokenizer_path); bytes && *bytes != manifest_.tokenizer.bytes)
    throw DataError(fmt::format("{}: truncated or altered: {} bytes, but the manifest says {}; {}", tokenizer_path,
                                *bytes, manifest_.tokenizer.bytes, kRepairAdvice));
  std::string text = read_tokenizer_file(tokenizer_path);
  if (hash_bytes(text.data(), text.size()) != manifest_.tokenizer.xxh3)
    throw DataError(fmt::format("{}: truncated or altered: its content does not match the hash in the manifest; {}",
                                tokenizer_path, kRepairAdvice));
  tokenizer_ = parse_tokenizer(std::move(text), tokenizer_path);
  identity_ = identity_of(manifest_);
  highest_id_ = manifest_.highest_id;
  // Only text has a separator: chat templates use the end-of-text token inside a conversation too.
  if (manifest_.kind == DataKind::text) separator_ = {tokenizer_->eot(), false};
  check_counts();
  open_files(options);
}

// The manifest's hash proves that it is unchanged; this checks that its numbers are consistent.
void PreparedDataset::check_counts() const {
  const auto need = [&](bool ok, const std::string& what) {
    if (!ok) throw DataError(fmt::format("{}: {}", (folder_ / Manifest::kFileName).string(), what));
  };
  need(manifest_.token_bytes == 2 || manifest_.token_bytes == 4,
       fmt::format("token_bytes is {}, not 2 or 4", manifest_.token_bytes));
  need(manifest_.shard_tokens > 0, "shard_tokens is 0");
  for (const uint64_t count : {manifest_.shard_tokens, record().tokens, record().documents})
    need(count <= kMostTokens, fmt::format("a count of {} is more than {}", count, kMostTokens));
  need(manifest_.vocab_size == tokenizer_->vocab_size() && manifest_.eot == tokenizer_->eot(),
       "vocab_size or eot is not the tokenizer's");
  need(manifest_.highest_id < manifest_.vocab_size,
       fmt::format("highest_id {} is beyond the vocabulary of {}", manifest_.highest_id, manifest_.vocab_size));
  const uint64_t shards =
      record().tokens / manifest_.shard_tokens + (record().tokens % manifest_.shard_tokens > 0 ? 1 : 0);
  need(manifest_.kind == DataKind::text || record().loss_masks.size() == shards,
       fmt::format("lists {} loss masks of {} shards", record().loss_masks.size(), shards));
  need(record().documents % static_cast<uint64_t>(documents_per_sample()) == 0,
       fmt::format("{} documents are not pairs of chosen and rejected", record().documents));
  need(record().shards.size() == shards, fmt::format("lists {} shards of the {} split, its tokens fill {}",
                                                     record().shards.size(), name_of(split_), shards));
}

void PreparedDataset::open_files(const OpenOptions& options) {
  std::vector<BlockHashes> hashes = verify_split(folder_, manifest_, split_, options);
  const std::vector<SplitFile> files = files_of(manifest_, split_);
  const size_t shards = record().shards.size();
  tokens_ = TokenStream(manifest_.token_bytes == 2 ? TokenType::u16 : TokenType::u32);
  loss_mask_ = TokenStream(TokenType::u8);
  has_loss_mask_ = manifest_.kind != DataKind::text;
  for (size_t f = 0; f < files.size(); ++f) {
    auto file =
        std::make_shared<const DataFile>(folder_ / files[f].record.name, files[f].record.bytes, std::move(hashes[f]));
    if (files[f].is_index)
      index_ = std::move(file);
    else
      (f < shards ? tokens_ : loss_mask_).add(std::move(file), 0, files[f].entries);
  }
}

std::optional<int32_t> PreparedDataset::end_of_message() const {
  if (manifest_.kind == DataKind::text) return std::nullopt;
  return end_of_answer(manifest_.chat_template, tokenizer());
}

double PreparedDataset::bytes_per_token() const {
  return tokens() > 0 ? static_cast<double>(text_bytes()) / static_cast<double>(tokens()) : 0.0;
}

std::pair<uint64_t, uint64_t> PreparedDataset::document(uint64_t index) const {
  FP_CHECK(index < documents(), "document {} of {}", index, documents());
  const uint64_t at = index * sizeof(uint64_t);
  const auto begin = index_->number<uint64_t>(at), end = index_->number<uint64_t>(at + sizeof(uint64_t));
  // Only possible in a folder without hashes that was altered after it was verified.
  if (begin >= end || end > tokens())
    throw DataError(fmt::format("{}: document {} is the tokens from {} to {} of {}: altered; {}", index_->name(), index,
                                begin, end, tokens(), kRepairAdvice));
  return {begin, end};
}

}  // namespace fp
