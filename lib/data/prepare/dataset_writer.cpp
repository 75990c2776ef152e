#include "data/prepare/dataset_writer.h"

#include <array>
#include <limits>
#include <vector>

#include "base/error.h"
#include "data/formats/flat_dataset.h"
#include "data/formats/megatron.h"
#include "data/prepare/split_writer.h"
#include "io/filesystem.h"
#include "io/pending.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

template <class T>
void write_number(PendingFile& file, T value) {
  file.write(std::as_bytes(std::span(&value, 1)));
}

// Writes ids as 2 or 4 bytes.
class IdFile {
 public:
  IdFile(const fs::path& path, TokenType type) : path_(path), file_(path), narrow_(type == TokenType::u16) {}
  void write(std::span<const int32_t> ids) {
    tokens_ += ids.size();
    if (!narrow_) return file_.write(std::as_bytes(ids));
    scratch_.clear();
    for (const int32_t id : ids) {
      if (id > std::numeric_limits<uint16_t>::max())
        throw ConfigError(
            fmt::format("{}: token id {} does not fit the 16 bits that this format has", path_.string(), id));
      scratch_.push_back(static_cast<uint16_t>(id));
    }
    file_.write(std::as_bytes(std::span(scratch_)));
  }
  uint64_t tokens() const { return tokens_; }
  PendingFile& file() { return file_; }

 private:
  fs::path path_;
  PendingFile file_;
  bool narrow_;
  std::vector<uint16_t> scratch_;
  uint64_t tokens_ = 0;
};

class MegatronWriter : public DatasetWriter {
 public:
  MegatronWriter(const fs::path& out, TokenType type)
      : type_(type), ids_(with_ending(out, ".bin"), type), index_(with_ending(out, ".idx")) {}
  void append(std::span<const int32_t> tokens, std::span<const int32_t>) override {
    if (tokens.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
      throw ConfigError(fmt::format("a document of {} tokens: a Megatron sequence has fewer than 2^31", tokens.size()));
    ids_.write(tokens);
    lengths_.push_back(static_cast<int32_t>(tokens.size()));
  }
  uint64_t tokens() const override { return ids_.tokens(); }
  // The index is renamed last: without it the files are no dataset.
  void finish() override {
    index_.write(std::as_bytes(std::span(MegatronIndex::kMagic, MegatronIndex::kMagicBytes)));
    write_number(index_, MegatronIndex::kVersion);
    write_number(index_, megatron_code(type_));
    write_number<uint64_t>(index_, lengths_.size());
    write_number<uint64_t>(index_, lengths_.size() + 1);
    index_.write(std::as_bytes(std::span(lengths_)));
    uint64_t offset = 0;
    for (const int32_t length : lengths_) {
      write_number(index_, offset);
      offset += static_cast<uint64_t>(length) * width_of(type_);
    }
    for (uint64_t d = 0; d <= lengths_.size(); ++d) write_number(index_, d);
    ids_.file().publish();
    index_.publish();
  }

 private:
  TokenType type_;
  IdFile ids_;
  PendingFile index_;
  std::vector<int32_t> lengths_;
};

class FlatWriter : public DatasetWriter {
 public:
  FlatWriter(const fs::path& out, TokenType type, bool header, Separator separator)
      : type_(type), ids_(out, type), header_(header), separator_(separator) {
    const std::array<std::byte, LlmcHeader::kBytes> blank{};  // overwritten by write_header()
    if (header_) ids_.file().write(blank);
  }
  void append(std::span<const int32_t>, std::span<const int32_t> body) override {
    if (separator_.begins) ids_.write(std::span(&separator_.id, 1));
    ids_.write(body);
    if (!separator_.begins) ids_.write(std::span(&separator_.id, 1));
  }
  uint64_t tokens() const override { return ids_.tokens(); }
  void finish() override {
    if (header_) write_header();
    ids_.file().publish();
  }

 private:
  void write_header() {
    if (ids_.tokens() > static_cast<uint64_t>(std::numeric_limits<int32_t>::max()))
      throw ConfigError(fmt::format("{} tokens: an llm.c file holds fewer than 2^31", ids_.tokens()));
    const bool wide = type_ == TokenType::u32;
    const std::array<int32_t, 3> head = {wide ? LlmcHeader::kMagic32 : LlmcHeader::kMagic16,
                                         wide ? LlmcHeader::kVersion32 : LlmcHeader::kVersion16,
                                         static_cast<int32_t>(ids_.tokens())};
    ids_.file().rewrite_begin(std::as_bytes(std::span(head)));
  }

  TokenType type_;
  IdFile ids_;
  bool header_;
  Separator separator_;
};

class PreparedWriter : public DatasetWriter {
 public:
  PreparedWriter(const fs::path& out, const Tokenizer& tokenizer, const std::string& source)
      : tokenizer_(tokenizer),
        folder_(out),
        manifest_(new_manifest(tokenizer)),
        train_(folder_.path(), Split::train, manifest_.token_bytes, manifest_.shard_tokens),
        validation_(folder_.path(), Split::validation, manifest_.token_bytes, manifest_.shard_tokens) {
    manifest_.documents = "as in " + source;
    manifest_.validation_split = "none";
  }
  void append(std::span<const int32_t>, std::span<const int32_t> body) override {
    document_.assign(body.begin(), body.end());
    document_.push_back(tokenizer_.eot());
    uint64_t bytes = 0;
    for (const int32_t id : body) bytes += tokenizer_.bytes_of(id).size();
    train_.append(document_, bytes);
    tokens_ += document_.size();
  }
  uint64_t tokens() const override { return tokens_; }
  void finish() override {
    manifest_.train = train_.finish();
    manifest_.validation = validation_.finish();
    manifest_.highest_id = std::max(train_.highest_id(), 0);
    write_manifest(folder_.path(), tokenizer_, manifest_);
    folder_.publish();
  }

 private:
  const Tokenizer& tokenizer_;
  PendingFolder folder_;
  Manifest manifest_;
  SplitWriter train_, validation_;
  std::vector<int32_t> document_;
  uint64_t tokens_ = 0;
};

}  // namespace

std::unique_ptr<DatasetWriter> make_megatron_writer(const fs::path& out, const Tokenizer& tokenizer) {
  constexpr int32_t kNarrowVocab = 65500;  // Megatron's own limit for 16 bits
  return std::make_unique<MegatronWriter>(out, tokenizer.vocab_size() < kNarrowVocab ? TokenType::u16 : TokenType::i32);
}

std::unique_ptr<DatasetWriter> make_llmc_writer(const fs::path& out, const Tokenizer& tokenizer) {
  const TokenType type = tokenizer.vocab_size() <= 0x10000 ? TokenType::u16 : TokenType::u32;
  return std::make_unique<FlatWriter>(out, type, true, Separator{llmc_separator(tokenizer), true});
}

std::unique_ptr<DatasetWriter> make_nanogpt_writer(const fs::path& out, const Tokenizer& tokenizer) {
  return std::make_unique<FlatWriter>(out, TokenType::u16, false, Separator{tokenizer.eot(), false});
}

std::unique_ptr<DatasetWriter> make_prepared_writer(const fs::path& out, const Tokenizer& tokenizer,
                                                    const std::string& source) {
  return std::make_unique<PreparedWriter>(out, tokenizer, source);
}

}  // namespace fp
