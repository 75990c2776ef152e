// Conversations as JSON lines: {"messages": [{"role", "content"}, ...]}, for preferences also "chosen" and "rejected".
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
  std::vector<Message> prompt;  // does not end with an answer
  std::string chosen, rejected;
};

// DataError naming `where` and the field when something is missing, of another type, or (in a message) unknown. Further
// fields beside "messages" are left alone.
// At least one message is the assistant's.
std::vector<Message> parse_conversation(const nlohmann::json& object, const std::string& where);
Preference parse_preference(const nlohmann::json& object, const std::string& where);

}  // namespace fp
