// Conversations with a model, for `fptrain generate --chat`.
#pragma once

#include <functional>
#include <string>

#include "data/text/chat.h"
#include "inference/inference.h"
#include "inference/text_generation.h"

namespace fp {

// Returns the format (ChatOptions::format) that `chosen` names: a template or a file; "": the model's own. Throws
// ConfigError where the model has none.
std::string choose_chat_format(const std::string& chosen, const WeightSource& source);

class ChatSession {
 public:
  // `system`: the system message; "": none. Adds the token that ends an answer to the stop ids of `options`. Decoder,
  // tokenizer and encoder must outlive the session.
  ChatSession(Decoder& decoder, const Tokenizer& tokenizer, ChatEncoder& encoder, const std::string& system,
              GenerationOptions options);

  // Answers a question behind the earlier ones, calling `emit` with each piece of the answer. Throws ConfigError when
  // the context is full.
  GenerationResult answer(const std::string& question, const std::function<void(const std::string&)>& emit);

 private:
  Decoder& decoder_;
  const Tokenizer& tokenizer_;
  ChatEncoder& encoder_;
  std::string system_;
  GenerationOptions options_;
  std::vector<int32_t> pending_;  // of the last answer, not yet in the context
};

// Returns the ids of a conversation's first question.
std::vector<int32_t> first_question(ChatEncoder& encoder, const std::string& system, const std::string& question);

}  // namespace fp
