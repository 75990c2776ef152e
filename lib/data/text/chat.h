// Encodes conversations as token ids by a model's chat template, with a loss mask that marks the answers.
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

#include "data/text/conversation.h"
#include "data/tokenizer/tokenizer.h"

namespace fp {

struct ChatOptions {
  std::string format;  // phi3 | phi3-small | llama3
  // true: "<|end|>" in the text of a message is encoded as ordinary text; false: such a message is refused.
  bool allow_special_text = false;
};

// Selects the messages of the assistant that count as answers: all of them, or only the last.
enum class Answers { all, last };

// Returns the special token that ends every message, answers included. A model trained on such conversations ends its
// answers with it.
inline const char* end_of_message(const std::string& format) { return format == "llama3" ? "<|eot_id|>" : "<|end|>"; }

// Encodes conversations. Each thread needs its own encoder. The tokenizer must outlive it.
class ChatEncoder {
 public:
  // Throws ConfigError for an unknown format, and DataError when the tokenizer lacks a special token of the template.
  ChatEncoder(const Tokenizer& tokenizer, const ChatOptions& options);

  // Appends the ids of the conversation, end-of-text token included, to `ids`, and to `loss_mask` a 1 for each id that
  // belongs to one of `answers` (the assistant's text and the token that ends it), else a 0. The conversation is
  // encoded as one text, so white space beside special tokens is treated as the tokenizer's flags say. When a message
  // contains the text of a special token, messages and template are encoded separately, so that no text becomes a
  // control token; without allow_special_text such a message is refused with a DataError naming `where`.
  void append(std::span<const Message> messages, Answers answers, const std::string& where, std::vector<int32_t>& ids,
              std::vector<uint8_t>& loss_mask);

 private:
  struct Part {
    std::string text;
    bool content;  // true: the text of a message; false: written by the template
  };
  std::vector<Part> render(std::span<const Message> messages) const;
  bool holds_special_text(const std::string& content);
  void encode(std::span<const Part> parts, bool apart, std::vector<int32_t>& ids);
  void mark_answers(std::span<const int32_t> ids, Answers answers, std::vector<uint8_t>& loss_mask) const;

  const Tokenizer& tokenizer_;
  ChatOptions options_;
  bool llama_;
  std::unique_ptr<Encoder> tokens_, text_;
  std::vector<int32_t> header_;  // the ids that precede an answer
  size_t header_control_ = 0;    // number of them up to and including the last special token
  int32_t end_ = 0;              // the id that ends a message
};

}  // namespace fp
