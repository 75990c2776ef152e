// Encodes the documents of `data prepare`: texts, conversations, or pairs of answers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/manifest.h"
#include "data/text/chat.h"
#include "data/text/corpus.h"
#include "data/tokenizer/tokenizer.h"

namespace fp {

struct EncodingOptions {
  DataKind kind = DataKind::text;
  ChatOptions chat;            // for conversations and preferences
  bool parse_special = false;  // for text: written-out added tokens become their ids
};

// The result of encoding a DocumentBatch.
struct EncodedBatch {
  struct Document {
    size_t end;           // end of its ids in `ids`
    uint64_t text_bytes;  // bytes of the text or the messages; 0 for an empty text, which has no ids
    uint64_t hash;        // sample_hash() of the sample
  };
  std::vector<int32_t> ids;
  std::vector<uint8_t> loss_mask;  // as long as ids; empty for text
  std::vector<Document> documents;
};

// Returns the text by which duplicate samples are recognised: the document's text, or its JSON line. Empty for an empty
// document.
std::string_view sample_text(const DocumentBatch& batch, size_t i, DataKind kind, std::string& scratch);
uint64_t sample_hash(std::string_view text);

// Encodes batches of documents, with one tokenizer encoder per thread. Keeps a reference to the tokenizer.
class DocumentEncoder {
 public:
  // Throws what ChatEncoder's constructor throws.
  DocumentEncoder(const Tokenizer& tokenizer, const EncodingOptions& options);
  // Encodes a batch on the thread with this index. Throws DataError with file:line for a malformed line.
  EncodedBatch operator()(const DocumentBatch& batch, int thread) const;

 private:
  void append_chat(const DocumentBatch& batch, size_t i, ChatEncoder& encoder, EncodedBatch& result) const;

  EncodingOptions options_;
  int32_t eot_;
  std::vector<std::unique_ptr<Encoder>> texts_;
  std::vector<std::unique_ptr<ChatEncoder>> chats_;
};

}  // namespace fp
