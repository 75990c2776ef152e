#include "data/prepared_dataset.h"

#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "base/error.h"
#include "base/parallel.h"
#include "data/chat.h"

namespace fp {
namespace {

// Hash of the file and the highest token in it, in one pass.
template <class Token>
void verify_shard(const MappedFile& shard, const FileRecord& record, int64_t highest_id, const std::string& path) {
  constexpr size_t kBlock = size_t{1} << 20;
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  const std::unique_ptr<XXH3_state_t, Free> state(XXH3_createState());
  XXH3_128bits_reset(state.get());
  Token highest = 0;
  for (size_t at = 0; at < shard.size(); at += kBlock) {
    const size_t n = std::min(kBlock, shard.size() - at);
    XXH3_128bits_update(state.get(), shard.data() + at, n);
    const auto tokens = shard.as<Token>().subspan(at / sizeof(Token), n / sizeof(Token));
    for (const Token token : tokens) highest = std::max(highest, token);
  }
  const XXH128_hash_t h = XXH3_128bits_digest(state.get());
  if (fmt::format("{:016x}{:016x}", h.high64, h.low64) != record.xxh3)
    throw DataError(fmt::format("{}: altered: its content does not match the hash in the manifest", path));
  if (static_cast<int64_t>(highest) > highest_id)
    throw DataError(
        fmt::format("{}: holds token id {}, but the manifest says that the highest is {}", path, highest, highest_id));
}

void verify_index(const MappedFile& index, const SplitRecord& record, const std::string& path) {
  if (hash_bytes(index.data(), index.size()) != record.index.xxh3)
    throw DataError(fmt::format("{}: altered: its content does not match the hash in the manifest", path));
  const auto bounds = index.as<uint64_t>();
  const bool increasing = std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>()) == bounds.end();
  if (bounds.front() != 0 || bounds.back() != record.tokens || !increasing)
    throw DataError(fmt::format("{}: the document boundaries are not increasing from 0 to {}", path, record.tokens));
}

MappedFile open_file(const std::filesystem::path& folder, const FileRecord& record, uint64_t expected_bytes) {
  const std::filesystem::path path = folder / record.name;
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) throw DataError(fmt::format("{}: cannot read the size: {}", path.string(), error.message()));
  if (size != record.bytes)
    throw DataError(
        fmt::format("{}: {} bytes, but the manifest says {}: truncated or altered", path.string(), size, record.bytes));
  if (record.bytes != expected_bytes)
    throw DataError(fmt::format("{}: the manifest gives it {} bytes, its own counts need {}", path.string(),
                                record.bytes, expected_bytes));
  return MappedFile(path);
}

// Runs task(0..n) on all threads; the exception of the lowest index is rethrown.
template <class Task>
void run_tasks(size_t n, Task&& task) {
  std::vector<std::exception_ptr> errors(n);
  std::atomic<size_t> taken = 0;
  parallel([&](int, int) {
    for (size_t i; (i = taken.fetch_add(1)) < n;) try {
        task(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
  });
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace

PreparedDataset::PreparedDataset(const std::filesystem::path& folder, Split split)
    : Dataset(folder.string(), "prepared"), folder_(folder), split_(split), manifest_(read_manifest(folder)) {
  const std::string tokenizer_path = (folder / manifest_.tokenizer.name).string();
  std::string text = read_file(tokenizer_path);
  if (hash_bytes(text.data(), text.size()) != manifest_.tokenizer.xxh3)
    throw DataError(
        fmt::format("{}: truncated or altered: its content does not match the hash in the manifest", tokenizer_path));
  tokenizer_ = parse_tokenizer(std::move(text), tokenizer_path);
  const std::string manifest = serialize(manifest_);
  identity_ = hash_bytes(manifest.data(), manifest.size());
  highest_id_ = manifest_.highest_id;
  // Templates use the end-of-text token inside a conversation too.
  if (manifest_.kind == DataKind::text) separator_ = {tokenizer_->eot(), false};
  check_counts();
  open_tokens();
}

// The manifest's hash says that it is what was written; this says that it makes sense.
void PreparedDataset::check_counts() const {
  const auto need = [&](bool ok, const std::string& what) {
    if (!ok) throw DataError(fmt::format("{}: {}", (folder_ / Manifest::kFileName).string(), what));
  };
  need(manifest_.token_bytes == 2 || manifest_.token_bytes == 4,
       fmt::format("token_bytes is {}, not 2 or 4", manifest_.token_bytes));
  need(manifest_.shard_tokens > 0, "shard_tokens is 0");
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

void PreparedDataset::open_tokens() {
  index_ = open_file(folder_, record().index, (record().documents + 1) * sizeof(uint64_t));
  tokens_ = open_shards(record().shards, manifest_.token_bytes == 2 ? TokenType::u16 : TokenType::u32, highest_id_);
  verify_index(index_, record(), (folder_ / record().index.name).string());
  has_loss_mask_ = manifest_.kind != DataKind::text;
  if (has_loss_mask_) loss_mask_ = open_shards(record().loss_masks, TokenType::u8, 1);
}

TokenStream PreparedDataset::open_shards(const std::vector<FileRecord>& records, TokenType type,
                                         int64_t highest) const {
  std::vector<MappedFile> files;
  for (size_t i = 0; i < records.size(); ++i)
    files.push_back(open_file(folder_, records[i], tokens_of_shard(i) * width_of(type)));
  const auto verify = type == TokenType::u8    ? verify_shard<uint8_t>
                      : type == TokenType::u16 ? verify_shard<uint16_t>
                                               : verify_shard<uint32_t>;
  run_tasks(files.size(),
            [&](size_t i) { verify(files[i], records[i], highest, (folder_ / records[i].name).string()); });
  TokenStream stream(type);
  for (size_t i = 0; i < files.size(); ++i)
    stream.add((folder_ / records[i].name).string(), std::move(files[i]), 0, tokens_of_shard(i));
  return stream;
}

uint64_t PreparedDataset::tokens_of_shard(size_t shard) const {
  return std::min(manifest_.shard_tokens, record().tokens - shard * manifest_.shard_tokens);
}

std::optional<int32_t> PreparedDataset::end_of_message() const {
  if (manifest_.kind == DataKind::text) return std::nullopt;
  return tokenizer().special_id(fp::end_of_message(manifest_.chat_template));
}

double PreparedDataset::bytes_per_token() const {
  return tokens() > 0 ? static_cast<double>(text_bytes()) / static_cast<double>(tokens()) : 0.0;
}

std::pair<uint64_t, uint64_t> PreparedDataset::document(uint64_t index) const {
  FP_CHECK(index < documents(), "document {} of {}", index, documents());
  const auto bounds = index_.as<uint64_t>();
  return {bounds[index], bounds[index + 1]};
}

}  // namespace fp
