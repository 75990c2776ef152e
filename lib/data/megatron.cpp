#include "data/megatron.h"

#include <array>
#include <cstring>

#include "base/error.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::pair<uint8_t, TokenType>, 6> kCodes = {{{1, TokenType::u8},
                                                                  {2, TokenType::i8},
                                                                  {3, TokenType::i16},
                                                                  {4, TokenType::i32},
                                                                  {5, TokenType::i64},
                                                                  {8, TokenType::u16}}};

constexpr uint64_t kMostBytes = uint64_t{1} << 60;  // of a .bin; sums of sizes stay far from overflow

template <class T>
T number_at(std::span<const std::byte> bytes, uint64_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

uint8_t megatron_code(TokenType type) {
  for (const auto& [code, known] : kCodes)
    if (known == type) return code;
  FP_CHECK(false, "Megatron has no code for this type");
  return 0;
}

MegatronIndex::MegatronIndex(std::span<const std::byte> bytes, const std::string& where) : bytes_(bytes) {
  const auto need = [&](bool ok, const std::string& what) {
    if (!ok) throw DataError(fmt::format("{}: {}", where, what));
  };
  need(bytes.size() >= kHeaderBytes && std::memcmp(bytes.data(), kMagic, kMagicBytes) == 0,
       "not a Megatron index: it does not begin with MMIDIDX and a header of 34 bytes");
  const auto version = number_at<uint64_t>(bytes, 9);
  need(version == kVersion, fmt::format("version {}: legal: {}", version, kVersion));
  const auto code = number_at<uint8_t>(bytes, 17);
  bool known = false;
  for (const auto& [c, type] : kCodes)
    if (c == code) type_ = type, known = true;
  need(known, fmt::format("type code {} of the ids: legal: 1 (u8), 2 (i8), 3 (i16), 4 (i32), 5 (i64), 8 (u16)", code));
  sequences_ = number_at<uint64_t>(bytes, 18);
  entries_ = number_at<uint64_t>(bytes, 26);
  const uint64_t room = bytes.size() - kHeaderBytes;
  need(sequences_ <= room / 12 && entries_ <= room / 8 && entries_ >= 1 && room >= 12 * sequences_ + 8 * entries_,
       fmt::format("{} sequences and {} document entries do not fit in {} bytes", sequences_, entries_, bytes.size()));
  const uint64_t rest = room - 12 * sequences_ - 8 * entries_;
  need(sequences_ == 0 || rest != sequences_, "holds the modes of a multimodal dataset, which is not supported");
  need(rest == 0, fmt::format("{} bytes after the end of its last table", rest));
  check_sequences(where);
  check_documents(where);
  if (sequences_ > 0)
    tokens_ = offset_of(sequences_ - 1) / width_of(type_) +
              static_cast<uint64_t>(number_at<int32_t>(bytes_, kHeaderBytes + 4 * (sequences_ - 1)));
}

void MegatronIndex::check_sequences(const std::string& where) const {
  uint64_t expected = 0;
  for (uint64_t s = 0; s < sequences_; ++s) {
    const auto tokens = number_at<int32_t>(bytes_, kHeaderBytes + 4 * s);
    if (tokens < 0) throw DataError(fmt::format("{}: sequence {} has {} tokens", where, s, tokens));
    if (expected > kMostBytes) throw DataError(fmt::format("{}: its sequences have more than 2^60 bytes", where));
    if (offset_of(s) != expected)
      throw DataError(fmt::format("{}: sequence {} begins at byte {} of the .bin, not at {} where the one before ends",
                                  where, s, static_cast<int64_t>(offset_of(s)), expected));
    expected += static_cast<uint64_t>(tokens) * width_of(type_);
  }
}

void MegatronIndex::check_documents(const std::string& where) const {
  for (uint64_t d = 1; d < entries_; ++d)
    if (entry(d) < entry(d - 1) || entry(d) > sequences_)
      throw DataError(fmt::format("{}: document entry {} is {} after {}: they rise from 0 to the {} sequences", where,
                                  d, static_cast<int64_t>(entry(d)), static_cast<int64_t>(entry(d - 1)), sequences_));
  if (entry(0) != 0 || entry(entries_ - 1) != sequences_)
    throw DataError(fmt::format("{}: the document entries go from {} to {}, not from 0 to the {} sequences", where,
                                static_cast<int64_t>(entry(0)), static_cast<int64_t>(entry(entries_ - 1)), sequences_));
}

uint64_t MegatronIndex::offset_of(uint64_t sequence) const {
  return number_at<uint64_t>(bytes_, kHeaderBytes + 4 * sequences_ + 8 * sequence);
}

uint64_t MegatronIndex::entry(uint64_t d) const {
  return number_at<uint64_t>(bytes_, kHeaderBytes + 12 * sequences_ + 8 * d);
}

uint64_t MegatronIndex::document_begin(uint64_t d) const {
  const uint64_t sequence = entry(d);
  return sequence < sequences_ ? offset_of(sequence) / width_of(type_) : tokens_;
}

fs::path megatron_prefix(const fs::path& path) {
  if (path.extension() != ".bin" && path.extension() != ".idx") return path;
  return path.parent_path() / path.stem();
}

bool is_megatron(const fs::path& path) {
  const fs::path index = with_ending(megatron_prefix(path), ".idx");
  if (!fs::is_regular_file(index)) return false;
  const MappedFile file(index);
  return file.size() >= MegatronIndex::kMagicBytes &&
         std::memcmp(file.data(), MegatronIndex::kMagic, MegatronIndex::kMagicBytes) == 0;
}

MegatronDataset::MegatronDataset(const fs::path& path, std::shared_ptr<const Tokenizer> tokenizer)
    : Dataset(path.string(), "megatron") {
  const fs::path prefix = megatron_prefix(path);
  const std::string bin = with_ending(prefix, ".bin").string(), idx = with_ending(prefix, ".idx").string();
  tokenizer_ = std::move(tokenizer);
  highest_id_ = tokenizer_->vocab_size() - 1;
  index_file_ = MappedFile(idx);
  index_.emplace(index_file_.as<std::byte>(), idx);
  MappedFile file(bin);
  const uint64_t bytes = index_->tokens() * width_of(index_->type());
  if (file.size() != bytes)
    throw DataError(fmt::format("{}: {} bytes, but {} says {}: truncated or altered", bin, file.size(), idx, bytes));
  tokens_ = TokenStream(index_->type());
  tokens_.add(bin, std::move(file), 0, index_->tokens());
  const std::string content = hash_bytes(index_file_.data(), index_file_.size()) + tokens_.fingerprint();
  identity_ = hash_bytes(content.data(), content.size());
}

std::pair<uint64_t, uint64_t> MegatronDataset::document(uint64_t d) const {
  FP_CHECK(d < documents(), "document {} of {}", d, documents());
  return {index_->document_begin(d), index_->document_begin(d + 1)};
}

}  // namespace fp
