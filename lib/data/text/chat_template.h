// Chat templates: the text around the messages of a conversation, by role. Built-in ones have a name:
//   chatml      <|im_start|>ROLE\n CONTENT <|im_end|>\n ...
//   plain       User:\n CONTENT \n\n Assistant:\n CONTENT {eos}; needs no special token but the end-of-text token
//   phi3        <|ROLE|>\n CONTENT <|end|>\n ...
//   phi3-small  the same after <|endoftext|>
//   llama3      <|begin_of_text|>, then <|start_header_id|>ROLE<|end_header_id|>\n\n CONTENT <|eot_id|> ..., CONTENT
//               without the white space around it
// Others come from YAML files with the keys of ChatTemplate, or from the `chat_template` of a Hugging Face folder.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fp {

// The text before and after a message. {bos} and {eos} stand for the tokenizer's own tokens that begin and end a text.
struct RoleText {
  std::string before, after;
  bool operator==(const RoleText&) const = default;
};

struct ChatTemplate {
  std::string begin;  // before the first message
  std::optional<RoleText> system;
  RoleText user, assistant;                   // assistant.after begins with the special token that ends an answer
  std::optional<std::string> default_system;  // the system message of conversations that have none
  bool trim = false;                          // messages lose the white space around them

  // Returns the text of a role; nullptr where the template has none for it.
  const RoleText* role(std::string_view name) const;
  bool operator==(const ChatTemplate&) const = default;
};

// The names of the built-in templates.
const std::vector<std::string>& chat_template_names();

// Returns a built-in template by its name, or the template that serialize() wrote. Throws ConfigError for other text.
ChatTemplate find_chat_template(const std::string& name);
// Returns the name of a template that is built in, else its definition as JSON on one line.
std::string serialize(const ChatTemplate& chat_template);

// Parses a YAML file; `where` names it in errors. Throws ConfigError that lists all of its mistakes.
ChatTemplate parse_chat_template(std::string_view yaml, const std::string& where);

// Returns the template that `name` stands for: a built-in one, the path of a YAML file, or a Hugging Face folder (its
// tokenizer_config.json or chat_template.jinja). Throws ConfigError that lists what is legal.
ChatTemplate load_chat_template(const std::string& name);

}  // namespace fp
