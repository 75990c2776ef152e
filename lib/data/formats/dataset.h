// The interface through which samplers and tools read a dataset, whatever its format on disk: a stream of tokens, the
// documents' boundaries, the tokenizer and the loss mask. Nothing is converted; files are read in place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "data/formats/manifest.h"
#include "data/formats/token_stream.h"
#include "data/formats/verification.h"
#include "data/tokenizer/tokenizer.h"

namespace fp {

// The token that separates documents.
struct Separator {
  int32_t id;
  bool begins;  // true: it is the first token of a document; false: the last
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  // Returns the path that the dataset was opened by, for messages.
  const std::string& name() const { return name_; }
  // Returns "prepared", "megatron", "llmc" or "nanogpt".
  std::string_view format() const { return format_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  uint64_t tokens() const { return tokens_.size(); }
  // Returns an upper bound of the token ids. Where a format does not record it, this is the tokenizer's highest id.
  int64_t highest_id() const { return highest_id_; }
  // Copies tokens [begin, begin + out.size()) of the stream; the range must lie inside it. Throws DataError naming file
  // and position when an id is negative or above highest_id().
  void read(uint64_t begin, std::span<int32_t> out) const { tokens_.read(begin, out, highest_id_); }
  // The loss mask of tokens [begin, begin + out.size()): 1 where a token counts in the loss (as a target), else 0.
  // Without a loss mask all are 1.
  bool has_loss_mask() const { return has_loss_mask_; }
  void read_loss_mask(uint64_t begin, std::span<int32_t> out) const;

  // Number of documents. Flat formats find them by reading the whole stream once, on the first call.
  virtual uint64_t documents() const = 0;
  // Returns the token range [first, last) of a document, its end-of-text token included.
  virtual std::pair<uint64_t, uint64_t> document(uint64_t index) const = 0;
  // Returns how many documents form a sample: 2 in a folder of preferences (chosen, rejected), else 1.
  virtual int documents_per_sample() const { return 1; }
  // Returns the token that ends an answer in conversations; nothing for text.
  virtual std::optional<int32_t> end_of_message() const { return std::nullopt; }
  // Returns the chat template of conversations (ChatOptions::format); "" for text.
  virtual std::string chat_template() const { return {}; }
  // Returns the token that separates documents in the stream; nothing where only the document index gives boundaries.
  const std::optional<Separator>& separator() const { return separator_; }
  // Sets starts[i] to 1 where a document begins at tokens[i], else to 0; `tokens` are those of the stream from `begin`
  // on. starts[0] is always 0. Both spans have the same length.
  void mark_document_starts(uint64_t begin, std::span<const int32_t> tokens, std::span<uint8_t> starts) const;

  // Returns the number of held-out tokens of the same folder; 0 for formats without splits.
  virtual uint64_t held_out_tokens() const { return 0; }
  // A hash that changes with the content, by which a resumed run recognises its data.
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
  // One of: a prepared folder; a Megatron prefix, .bin or .idx; an llm.c or nanoGPT file, or a glob pattern
  // ("fineweb_train_*.bin").
  std::string path;
  std::string format = "auto";                 // auto (by content) | prepared | megatron | llmc | nanogpt
  std::shared_ptr<const Tokenizer> tokenizer;  // for formats that store none; empty: not given
};

// Opens one split of a dataset. Only prepared folders have splits: other formats are training text as a whole, and
// return nullptr for `validation`. `options` say how a prepared folder is verified; for other formats only sizes,
// headers and indexes are checked. Throws ConfigError when the format cannot be recognised, or when a tokenizer is
// missing or differs from the folder's own; DataError naming the file when one is missing, truncated or malformed.
std::unique_ptr<Dataset> open_dataset(const DatasetSource& source, Split split, const OpenOptions& options = {});

}  // namespace fp
