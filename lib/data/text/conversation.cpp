#include "data/text/conversation.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace fp {
namespace {

using MessageJson = nlohmann::json;

const std::string& text_field(const MessageJson& object, const char* name, const std::string& where) {
  const auto it = object.find(name);
  if (it == object.end()) throw DataError(fmt::format("{}: no field \"{}\"", where, name));
  if (!it->is_string())
    throw DataError(fmt::format("{}: field \"{}\" is {}, not a string", where, name, it->type_name()));
  return it->get_ref<const std::string&>();
}

Message parse_message(const MessageJson& object, const std::string& where) {
  if (!object.is_object()) throw DataError(fmt::format("{}: is {}, not an object", where, object.type_name()));
  for (const auto& [key, value] : object.items())
    if (key != "role" && key != "content")
      throw DataError(fmt::format("{}: field \"{}\": legal: role, content", where, key));
  Message message{text_field(object, "role", where), text_field(object, "content", where)};
  if (message.role != "system" && message.role != "user" && message.role != "assistant")
    throw DataError(fmt::format("{}: role \"{}\": legal: system, user, assistant", where, message.role));
  return message;
}

std::vector<Message> parse_messages(const MessageJson& object, const std::string& where) {
  if (!object.is_object())
    throw DataError(fmt::format("{}: a JSON object is expected on each line, not {}", where, object.type_name()));
  const auto it = object.find("messages");
  if (it == object.end() || !it->is_array() || it->empty())
    throw DataError(fmt::format("{}: needs a field \"messages\" with a list of messages", where));
  std::vector<Message> messages;
  for (size_t i = 0; i < it->size(); ++i)
    messages.push_back(parse_message((*it)[i], fmt::format("{}: messages[{}]", where, i)));
  return messages;
}

bool is_answer(const Message& message) { return message.role == "assistant"; }

}  // namespace

std::vector<Message> parse_conversation(const MessageJson& object, const std::string& where) {
  auto messages = parse_messages(object, where);
  if (std::none_of(messages.begin(), messages.end(), is_answer))
    throw DataError(fmt::format("{}: no message has the role assistant, so there is nothing to train on", where));
  return messages;
}

Preference parse_preference(const MessageJson& object, const std::string& where) {
  Preference p{parse_messages(object, where), text_field(object, "chosen", where),
               text_field(object, "rejected", where)};
  if (is_answer(p.prompt.back()))
    throw DataError(fmt::format(
        "{}: \"messages\" end with a message of the assistant; the answers belong in \"chosen\" and \"rejected\"",
        where));
  return p;
}

}  // namespace fp
