// Conversations to tokens by a model's chat template, and which of the tokens are answers.
//   phi3        <|role|>\n CONTENT <|end|>\n ..., then the end-of-text token
//   phi3-small  the same after <|endoftext|>
//   llama3      <|begin_of_text|>, then <|start_header_id|>ROLE<|end_header_id|>\n\n CONTENT <|eot_id|> ..., CONTENT
//               without the white space around it; then the end-of-text token that ends every document of a dataset
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/conversation.h"
#include "data/tokenizer.h"

namespace fp {

struct ChatOptions {
  std::string format;               // phi3 | phi3-small | llama3
  bool allow_special_text = false;  // "<|end|>" written out in a message stays text; false: it is refused
};

// Which messages of the assistant are answers: all, or only the one that comes last.
enum class Answers { all, last };

// The special token that ends every message, answers included: what a model trained on such conversations ends with.
inline const char* end_of_message(const std::string& format) { return format == "llama3" ? "<|eot_id|>" : "<|end|>"; }

// Encodes on one thread. Must not outlive its tokenizer.
class ChatEncoder {
 public:
  // ConfigError for an unknown format, DataError when the tokenizer lacks one of its special tokens.
  ChatEncoder(const Tokenizer& tokenizer, const ChatOptions& options);

  // Appends the ids of the conversation, end-of-text token included, and for each 1 when it belongs to one of `answers`
  // (the assistant's text and the token that ends it), else 0. The ids are those of the whole written-out conversation,
  // so white space beside special tokens goes where the tokenizer's flags say; a message with the text of a special
  // token in it is encoded by itself, so that no text becomes a control token. DataError naming `where` for such a
  // message unless allow_special_text.
  void append(std::span<const Message> messages, Answers answers, const std::string& where, std::vector<int32_t>& ids,
              std::vector<uint8_t>& learned);

 private:
  struct Part {
    std::string text;
    bool content;  // written by a person; false: by the template
  };
  std::vector<Part> render(std::span<const Message> messages) const;
  bool holds_special_text(const std::string& content);
  void encode(std::span<const Part> parts, bool apart, std::vector<int32_t>& ids);
  void mark_answers(std::span<const int32_t> ids, Answers answers, std::vector<uint8_t>& learned) const;

  const Tokenizer& tokenizer_;
  ChatOptions options_;
  bool llama_;
  std::unique_ptr<Encoder> tokens_, text_;
  std::vector<int32_t> header_;  // of an answer
  size_t header_control_ = 0;    // its ids up to the last special token
  int32_t end_ = 0;              // ends a message
};

}  // namespace fp
