// Encodes conversations as token ids by a chat template (data/text/chat_template.h), with a loss mask that marks the
// answers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/chat_template.h"
#include "data/text/conversation.h"
#include "data/tokenizer/tokenizer.h"

namespace fp {

struct ChatOptions {
  std::string format;  // the name of a built-in template, or the result of serialize()
  // true: "<|end|>" in the text of a message is encoded as ordinary text; false: such a message is refused.
  bool allow_special_text = false;
};

// Selects the messages of the assistant that count as answers: all of them, or only the last.
enum class Answers { all, last };

// Encodes conversations. Each thread needs its own encoder. The tokenizer must outlive it.
class ChatEncoder {
 public:
  // Throws ConfigError for an unknown format, and DataError when the tokenizer lacks a special token of the template or
  // the text after an answer does not begin with one.
  ChatEncoder(const Tokenizer& tokenizer, const ChatOptions& options);

  // Appends the ids of the conversation, end-of-text token included, to `ids`, and to `loss_mask` a 1 for each id that
  // belongs to one of `answers` (the assistant's text and the token that ends it), else a 0. An answer begins where its
  // ids differ from those of the text up to it alone. The conversation is encoded as one text, so white space beside
  // special tokens is treated as the tokenizer's flags say. When a message contains the text of a special token,
  // messages and template are encoded separately, so that no text becomes a control token; without allow_special_text
  // such a message is refused with a DataError naming `where`, as is one with a role that the template lacks.
  void append(std::span<const Message> messages, Answers answers, const std::string& where, std::vector<int32_t>& ids,
              std::vector<uint8_t>& loss_mask);

  // Returns the ids of a prompt: the conversation, and what the template writes before an answer. Text of special
  // tokens in it stays text.
  std::vector<int32_t> prompt(std::span<const Message> messages);
  // Returns the ids that continue a conversation whose last id is that of an answer's text: the end of the answer, the
  // message, and what the template writes before an answer.
  std::vector<int32_t> next_turn(const Message& message);
  // Returns the id that ends an answer.
  int32_t end_of_answer() const { return end_; }

 private:
  struct Part {
    std::string text;
    bool content = false;       // true: the text of a message; false: written by the template
    std::optional<int32_t> id;  // instead of text: a token that has no written form
  };
  void add_template(const std::string& text, std::vector<Part>& parts) const;
  void add_message(const Message& message, const std::string& where, std::vector<Part>& parts) const;
  // Returns the conversation; sets `answers` to the numbers of parts before each answer's text.
  std::vector<Part> render(std::span<const Message> messages, const std::string& where,
                           std::vector<size_t>& answers) const;
  std::optional<Message> default_message(std::span<const Message> messages) const;
  void require_special_tokens() const;
  bool holds_special_text(const std::string& content);
  bool encode_apart(std::span<const Message> messages, const std::string& where);
  void encode(std::span<const Part> parts, bool apart, std::vector<int32_t>& ids);

  const Tokenizer& tokenizer_;
  ChatOptions options_;
  ChatTemplate template_;
  std::unique_ptr<Encoder> tokens_, text_;
  int32_t end_ = 0;
};

// Returns the special token that ends an answer in conversations of this format. A model trained on them ends its
// answers with it.
int32_t end_of_answer(const std::string& format, const Tokenizer& tokenizer);

}  // namespace fp
