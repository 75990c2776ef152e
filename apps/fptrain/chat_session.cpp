#include "chat_session.h"

#include "base/error.h"
#include "data/text/chat_template.h"

namespace fp {

std::string choose_chat_format(const std::string& chosen, const WeightSource& source) {
  if (!chosen.empty()) return serialize(load_chat_template(chosen));
  std::string own = source.chat_template();
  if (own.empty())
    throw ConfigError(fmt::format(
        "--chat: {} was not trained on conversations and has no chat template; choose one with --chat-template: {}, a "
        "template file or a Hugging Face folder",
        source.path().string(), fmt::join(chat_template_names(), ", ")));
  return own;
}

std::vector<int32_t> first_question(ChatEncoder& encoder, const std::string& system, const std::string& question) {
  std::vector<Message> messages;
  if (!system.empty()) messages.push_back({"system", system});
  messages.push_back({"user", question});
  return encoder.prompt(messages);
}

ChatSession::ChatSession(Decoder& decoder, const Tokenizer& tokenizer, ChatEncoder& encoder, const std::string& system,
                         GenerationOptions options)
    : decoder_(decoder), tokenizer_(tokenizer), encoder_(encoder), system_(system), options_(std::move(options)) {
  options_.stop_ids.push_back(encoder.end_of_answer());
}

GenerationResult ChatSession::answer(const std::string& question, const std::function<void(const std::string&)>& emit) {
  std::vector<int32_t> ids = pending_;
  const std::vector<int32_t> more =
      decoder_.length() == 0 ? first_question(encoder_, system_, question) : encoder_.next_turn({"user", question});
  ids.insert(ids.end(), more.begin(), more.end());
  GenerationResult result = generate(decoder_, tokenizer_, std::move(ids), true, options_, emit);
  pending_ = result.not_in_context;
  return result;
}

}  // namespace fp
