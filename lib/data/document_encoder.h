// What `data prepare` makes of each document: a text, a conversation, or a pair of answers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat.h"
#include "data/corpus.h"
#include "data/manifest.h"
#include "data/tokenizer.h"

namespace fp {

struct EncodingOptions {
  DataKind kind = DataKind::text;
  ChatOptions chat;            // of conversations and preferences
  bool parse_special = false;  // of text: written-out added tokens become their ids
};

// Documents as a worker leaves them.
struct EncodedBatch {
  struct Document {
    size_t end;           // in ids
    uint64_t text_bytes;  // of a text, 0: empty, no ids; of a conversation its messages
    uint64_t hash;        // of the sample's text
  };
  std::vector<int32_t> ids;
  std::vector<uint8_t> learned;  // as long as ids; empty for text
  std::vector<Document> documents;
};

// What makes a sample the same as another: its text, or its JSON line. Empty: there is nothing in it.
std::string_view sample_text(const DocumentBatch& batch, size_t i, DataKind kind, std::string& scratch);
uint64_t sample_hash(std::string_view text);

// One encoder for each thread.
class DocumentEncoder {
 public:
  // As ChatEncoder's constructor.
  DocumentEncoder(const Tokenizer& tokenizer, const EncodingOptions& options);
  // DataError with file:line for a bad line.
  EncodedBatch operator()(const DocumentBatch& batch, int thread) const;

 private:
  void append_chat(const DocumentBatch& batch, size_t i, ChatEncoder& encoder, EncodedBatch& result) const;

  EncodingOptions options_;
  int32_t eot_;
  std::vector<std::unique_ptr<Encoder>> texts_;
  std::vector<std::unique_ptr<ChatEncoder>> chats_;
};

}  // namespace fp
