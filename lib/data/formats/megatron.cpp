#include "data/formats/megatron.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "io/filesystem.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::pair<uint8_t, TokenType>, 6> kCodes = {{{1, TokenType::u8},
                                                                  {2, TokenType::i8},
                                                                  {3, TokenType::i16},
                                                                  {4, TokenType::i32},
                                                                  {5, TokenType::i64},
                                                                  {8, TokenType::u16}}};

constexpr uint64_t kMaxBytes = uint64_t{1} << 60;  // size of a .bin; far below overflow

template <class Number>
struct Table {
  uint64_t at;  // offset of its first byte
};

// Calls visit(i, numbers[i]...) for i = 0..n-1, where numbers[i]... are entry i of each table. Reads the tables
// piecewise.
template <class Visit, class... Number>
void for_each_of(const ByteReader& bytes, uint64_t n, Visit&& visit, Table<Number>... tables) {
  constexpr uint64_t kPiece = uint64_t{1} << 16;
  std::tuple<std::vector<Number>...> pieces;
  for (uint64_t begin = 0; begin < n; begin += kPiece) {
    const uint64_t count = std::min(kPiece, n - begin);
    const auto load = [&](auto& piece, uint64_t at) {
      piece.resize(count);
      bytes.read(at + begin * sizeof(piece[0]), std::as_writable_bytes(std::span(piece)));
    };
    std::apply([&](auto&... piece) { (load(piece, tables.at), ...); }, pieces);
    for (uint64_t i = 0; i < count; ++i)
      std::apply([&](const auto&... piece) { visit(begin + i, piece[i]...); }, pieces);
  }
}

// Returns hash_bytes() of the whole file.
std::string hash_of(const DataFile& file) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(), XXH3_freeState);
  XXH3_128bits_reset(hash.get());
  std::vector<std::byte> piece;
  for (uint64_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(std::min(kHashedBlock, file.size() - at));
    file.read_past_cache(at, piece);
    XXH3_128bits_update(hash.get(), piece.data(), piece.size());
  }
  const XXH128_hash_t h = XXH3_128bits_digest(hash.get());
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

}  // namespace

uint8_t megatron_code(TokenType type) {
  for (const auto& [code, known] : kCodes)
    if (known == type) return code;
  FP_UNREACHABLE("Megatron has no code for this type");
}

MegatronIndex::MegatronIndex(const ByteReader& bytes, const std::string& where) : bytes_(bytes) {
  read_header(where);
  check_sequences(where);
  check_documents(where);
  if (sequences_ > 0)
    tokens_ = offset_of(sequences_ - 1) / width_of(type_) +
              static_cast<uint64_t>(bytes_.number<int32_t>(kHeaderBytes + 4 * (sequences_ - 1)));
}

void MegatronIndex::read_header(const std::string& where) {
  const auto need = [&](bool ok, const std::string& what) {
    if (!ok) throw DataError(fmt::format("{}: {}", where, what));
  };
  constexpr const char* kNoIndex = "not a Megatron index: it does not begin with MMIDIDX and a header of 34 bytes";
  need(bytes_.size() >= kHeaderBytes, kNoIndex);
  std::array<char, kMagicBytes> magic;
  bytes_.read(0, std::as_writable_bytes(std::span(magic)));
  need(std::memcmp(magic.data(), kMagic, kMagicBytes) == 0, kNoIndex);
  const auto version = bytes_.number<uint64_t>(9);
  need(version == kVersion, fmt::format("version {}: legal: {}", version, kVersion));
  const auto code = bytes_.number<uint8_t>(17);
  bool known = false;
  for (const auto& [c, type] : kCodes)
    if (c == code) type_ = type, known = true;
  need(known, fmt::format("type code {} of the ids: legal: 1 (u8), 2 (i8), 3 (i16), 4 (i32), 5 (i64), 8 (u16)", code));
  sequences_ = bytes_.number<uint64_t>(18);
  entries_ = bytes_.number<uint64_t>(26);
  const uint64_t available = bytes_.size() - kHeaderBytes;
  need(sequences_ <= available / 12 && entries_ <= available / 8 && entries_ >= 1 &&
           available >= 12 * sequences_ + 8 * entries_,
       fmt::format("{} sequences and {} document entries do not fit in {} bytes", sequences_, entries_, bytes_.size()));
  const uint64_t rest = available - 12 * sequences_ - 8 * entries_;
  need(sequences_ == 0 || rest != sequences_, "holds the modes of a multimodal dataset, which is not supported");
  need(rest == 0, fmt::format("{} bytes after the end of its last table", rest));
}

void MegatronIndex::check_sequences(const std::string& where) const {
  uint64_t expected = 0;
  const auto check = [&](uint64_t s, int32_t tokens, uint64_t offset) {
    if (tokens < 0) throw DataError(fmt::format("{}: sequence {} has {} tokens", where, s, tokens));
    if (expected > kMaxBytes) throw DataError(fmt::format("{}: its sequences have more than 2^60 bytes", where));
    if (offset != expected)
      throw DataError(fmt::format("{}: sequence {} begins at byte {} of the .bin, not at {} where the one before ends",
                                  where, s, static_cast<int64_t>(offset), expected));
    expected += static_cast<uint64_t>(tokens) * width_of(type_);
  };
  for_each_of(bytes_, sequences_, check, Table<int32_t>{kHeaderBytes}, Table<uint64_t>{kHeaderBytes + 4 * sequences_});
}

void MegatronIndex::check_documents(const std::string& where) const {
  uint64_t before = 0;
  const auto check = [&](uint64_t d, uint64_t first) {
    if (d > 0 && (first < before || first > sequences_))
      throw DataError(fmt::format("{}: document entry {} is {} after {}: they rise from 0 to the {} sequences", where,
                                  d, static_cast<int64_t>(first), static_cast<int64_t>(before), sequences_));
    before = first;
  };
  for_each_of(bytes_, entries_, check, Table<uint64_t>{kHeaderBytes + 12 * sequences_});
  if (entry(0) != 0 || entry(entries_ - 1) != sequences_)
    throw DataError(fmt::format("{}: the document entries go from {} to {}, not from 0 to the {} sequences", where,
                                static_cast<int64_t>(entry(0)), static_cast<int64_t>(entry(entries_ - 1)), sequences_));
}

uint64_t MegatronIndex::offset_of(uint64_t sequence) const {
  return bytes_.number<uint64_t>(kHeaderBytes + 4 * sequences_ + 8 * sequence);
}

uint64_t MegatronIndex::entry(uint64_t d) const {
  return bytes_.number<uint64_t>(kHeaderBytes + 12 * sequences_ + 8 * d);
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
  const DataFile file(index);
  if (file.size() < MegatronIndex::kMagicBytes) return false;
  std::array<char, MegatronIndex::kMagicBytes> magic;
  file.read_past_cache(0, std::as_writable_bytes(std::span(magic)));
  return std::memcmp(magic.data(), MegatronIndex::kMagic, MegatronIndex::kMagicBytes) == 0;
}

MegatronDataset::MegatronDataset(const fs::path& path, std::shared_ptr<const Tokenizer> tokenizer)
    : Dataset(path.string(), "megatron"), index_file_(with_ending(megatron_prefix(path), ".idx")) {
  tokenizer_ = std::move(tokenizer);
  highest_id_ = tokenizer_->vocab_size() - 1;
  const std::string& idx = index_file_.name();
  index_.emplace(index_file_, idx);
  auto file = std::make_shared<const DataFile>(with_ending(megatron_prefix(path), ".bin"));
  const uint64_t bytes = index_->tokens() * width_of(index_->type());
  if (file->size() != bytes)
    throw DataError(
        fmt::format("{}: {} bytes, but {} says {}: truncated or altered", file->name(), file->size(), idx, bytes));
  tokens_ = TokenStream(index_->type());
  tokens_.add(std::move(file), 0, index_->tokens());
  const std::string content = hash_of(index_file_) + tokens_.fingerprint();
  identity_ = hash_bytes(content.data(), content.size());
}

std::pair<uint64_t, uint64_t> MegatronDataset::document(uint64_t d) const {
  FP_CHECK(d < documents(), "document {} of {}", d, documents());
  return {index_->document_begin(d), index_->document_begin(d + 1)};
}

}  // namespace fp
