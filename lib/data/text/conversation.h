// Parses conversations from JSON lines: {"messages": [{"role", "content"}, ...]}; preferences also have "chosen" and
// "rejected".
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace fp {

struct Message {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

struct Preference {
  std::vector<Message> prompt;  // does not end with a message of the assistant
  std::string chosen, rejected;
};

// Both parse one JSON line. They throw DataError naming `where` and the field when a field is missing, has another
// type, or (in a message) is unknown. Unknown fields beside "messages" are ignored. A conversation must contain at
// least one message of the assistant.
std::vector<Message> parse_conversation(const nlohmann::json& object, const std::string& where);
Preference parse_preference(const nlohmann::json& object, const std::string& where);

}  // namespace fp
