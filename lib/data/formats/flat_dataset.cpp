#include "data/formats/flat_dataset.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "io/filesystem.h"

namespace fp {

LlmcHeader read_llmc_header(const ByteReader& file, const std::string& where) {
  const auto need = [&](bool ok, const std::string& what) {
    if (!ok) throw DataError(fmt::format("{}: {}", where, what));
  };
  need(file.size() >= LlmcHeader::kBytes,
       fmt::format("{} bytes, less than the header of an llm.c file ({})", file.size(), LlmcHeader::kBytes));
  int32_t head[3];
  file.read(0, std::as_writable_bytes(std::span(head)));
  const auto [magic, version, tokens] = head;
  need(magic == LlmcHeader::kMagic16 || magic == LlmcHeader::kMagic32,
       fmt::format("magic number {}: an llm.c token file has {} (16-bit ids) or {} (32-bit ids)", magic,
                   LlmcHeader::kMagic16, LlmcHeader::kMagic32));
  const bool wide = magic == LlmcHeader::kMagic32;
  const int32_t legal = wide ? LlmcHeader::kVersion32 : LlmcHeader::kVersion16;
  need(version == legal, fmt::format("version {}: legal for magic {}: {}", version, magic, legal));
  need(tokens >= 0, fmt::format("{} tokens", tokens));
  const LlmcHeader header{wide ? TokenType::u32 : TokenType::u16, static_cast<uint64_t>(tokens)};
  const uint64_t bytes = LlmcHeader::kBytes + header.tokens * width_of(header.type);
  need(file.size() == bytes,
       fmt::format("{} bytes, but its {} tokens take {}: truncated or altered", file.size(), tokens, bytes));
  return header;
}

bool is_llmc(const std::string& pattern) {
  const auto files = matching_files(pattern);
  if (files.empty() || !std::filesystem::is_regular_file(files.front())) return false;
  const DataFile file(files.front());
  if (file.size() < LlmcHeader::kBytes) return false;
  const auto magic = file.number<int32_t>(0);
  return magic == LlmcHeader::kMagic16 || magic == LlmcHeader::kMagic32;
}

int32_t llmc_separator(const Tokenizer& tokenizer) {
  return tokenizer.special_id("<|begin_of_text|>").value_or(tokenizer.eot());
}

FlatDataset::FlatDataset(const std::string& pattern, Kind kind, std::shared_ptr<const Tokenizer> tokenizer)
    : Dataset(pattern, kind == Kind::llmc ? "llmc" : "nanogpt") {
  tokenizer_ = std::move(tokenizer);
  highest_id_ = tokenizer_->vocab_size() - 1;
  separator_ = kind == Kind::llmc ? Separator{llmc_separator(*tokenizer_), true} : Separator{tokenizer_->eot(), false};
  const auto files = matching_files(pattern);
  if (files.empty()) throw DataError(fmt::format("{}: no such file, and no file matches it as a pattern", pattern));
  std::optional<TokenType> type;
  for (const auto& path : files) {
    auto file = std::make_shared<const DataFile>(path);
    LlmcHeader header{TokenType::u16, file->size() / 2};
    if (kind == Kind::llmc) header = read_llmc_header(*file, path.string());
    if (kind == Kind::nanogpt && file->size() % 2 != 0)
      throw DataError(fmt::format("{}: {} bytes, an odd number: not raw 16-bit ids", path.string(), file->size()));
    if (!type) tokens_ = TokenStream(*(type = header.type));
    if (header.type != *type)
      throw DataError(fmt::format("{}: has ids of another width than {}", path.string(), files.front().string()));
    const size_t offset = kind == Kind::llmc ? LlmcHeader::kBytes : 0;
    tokens_.add(std::move(file), offset, header.tokens);
  }
  if (*type == TokenType::u16 && separator_->id > 0xFFFF)
    throw ConfigError(
        fmt::format("{}: holds 16-bit ids, but the tokenizer's end-of-text token is {}; this is not the tokenizer it "
                    "was made with",
                    pattern, separator_->id));
  identity_ = tokens_.fingerprint();
}

void FlatDataset::find_documents() const {
  constexpr uint64_t kBlock = uint64_t{1} << 20;
  std::vector<int32_t> block;
  const auto add = [&](uint64_t bound) {
    if (bounds_.empty() || bounds_.back() != bound) bounds_.push_back(bound);
  };
  add(0);
  for (uint64_t begin = 0; begin < tokens(); begin += kBlock) {
    block.resize(std::min(kBlock, tokens() - begin));
    read(begin, block);
    for (size_t i = 0; i < block.size(); ++i)
      if (block[i] == separator_->id) add(begin + i + (separator_->begins ? 0 : 1));
  }
  add(tokens());
}

uint64_t FlatDataset::documents() const {
  std::call_once(found_, [this] { find_documents(); });
  return bounds_.size() - 1;
}

std::pair<uint64_t, uint64_t> FlatDataset::document(uint64_t index) const {
  FP_CHECK(index < documents(), "document {} of {}", index, documents());
  return {bounds_[index], bounds_[index + 1]};
}

}  // namespace fp
