// What samplers and tools need of a dataset, whatever its format on disk: a stream of tokens, the places where its
// documents begin, its tokenizer, and which tokens are learned from. Nothing is converted; files are read in place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "data/manifest.h"
#include "data/token_stream.h"
#include "data/tokenizer.h"
#include "data/verification.h"

namespace fp {

// The token that stands between documents.
struct Separator {
  int32_t id;
  bool begins;  // it is the first token of a document; false: the last
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  // The path it was opened by, for messages.
  const std::string& name() const { return name_; }
  // "prepared", "megatron", "llmc" or "nanogpt".
  std::string_view format() const { return format_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  uint64_t tokens() const { return tokens_.size(); }
  // No token is above it. Where a format does not record it, the tokenizer's highest id.
  int64_t highest_id() const { return highest_id_; }
  // Copies tokens [begin, begin + out.size()) of the stream; the range must lie inside it. DataError naming file and
  // place when one is above highest_id() or negative.
  void read(uint64_t begin, std::span<int32_t> out) const { tokens_.read(begin, out, highest_id_); }
  // For each of these tokens 1 when it is learned from (as a target), else 0. Without a mask all are.
  bool has_loss_mask() const { return has_loss_mask_; }
  void read_loss_mask(uint64_t begin, std::span<int32_t> out) const;

  // Flat formats find their documents by reading the whole stream, once, when they are first asked for.
  virtual uint64_t documents() const = 0;
  // Token range [first, last) of a document, its end-of-text token included.
  virtual std::pair<uint64_t, uint64_t> document(uint64_t index) const = 0;
  // Documents that form a sample together: 2 in a folder of preferences (chosen, rejected), else 1.
  virtual int documents_per_sample() const { return 1; }
  // The token that ends a message of the conversations it was prepared from; nothing for text.
  virtual std::optional<int32_t> end_of_message() const { return std::nullopt; }
  // Tells documents apart in the stream; nothing where only the index of the documents does.
  const std::optional<Separator>& separator() const { return separator_; }
  // starts[i] = 1 where a document begins at tokens[i], the tokens being [begin, begin + tokens.size()) of the stream;
  // starts[0] is always 0. Both spans have one length.
  void mark_document_starts(uint64_t begin, std::span<const int32_t> tokens, std::span<uint8_t> starts) const;

  // Tokens that the same folder holds out; 0 for formats without splits.
  virtual uint64_t held_out_tokens() const { return 0; }
  // Changes when the content does: the key by which a resumed run knows its data again.
  const std::string& identity() const { return identity_; }

 protected:
  Dataset(std::string name, std::string_view format) : name_(std::move(name)), format_(format) {}

  std::string name_;
  std::string_view format_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  TokenStream tokens_, loss_mask_;
  bool has_loss_mask_ = false;
  int64_t highest_id_ = 0;
  std::optional<Separator> separator_;
  std::string identity_;
};

struct DatasetSource {
  // A prepared folder; a Megatron prefix, .bin or .idx; an llm.c or nanoGPT file or a pattern ("fineweb_train_*.bin").
  std::string path;
  std::string format = "auto";                 // auto (by content) | prepared | megatron | llmc | nanogpt
  std::shared_ptr<const Tokenizer> tokenizer;  // for the formats that have none; empty: not given
};

// Formats other than the prepared folder have no splits: they are all training text, and `validation` gives nullptr.
// ConfigError when the format cannot be told, or when a tokenizer is missing or not the folder's own; DataError naming
// the file for anything missing, truncated or malformed.
// `options`: how a prepared folder is verified; of other formats only sizes, headers and indexes are checked.
std::unique_ptr<Dataset> open_dataset(const DatasetSource& source, Split split, const OpenOptions& options = {});

}  // namespace fp
