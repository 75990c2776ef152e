// Chat templates of Hugging Face folders: `chat_template` of tokenizer_config.json, or chat_template.jinja.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "data/text/chat_template.h"

namespace fp {

// Returns the template that is equal to a Jinja template for conversations of a system message (optional), users and
// assistants in turn. It is found by rendering conversations and proven by rendering others, so a Jinja template that
// does more than to put fixed text around messages (and trim them) is refused, with a ConfigError that says where it
// differs. `bos` and `eos`: the tokens that begin and end a text; empty: {bos} and {eos}.
ChatTemplate chat_template_from_jinja(const std::string& jinja, const std::string& bos, const std::string& eos,
                                      const std::string& where);

// Returns the template of a tokenizer's files (name -> content); nothing where they have none. Throws ConfigError as
// above, and DataError for malformed files.
std::optional<ChatTemplate> hf_chat_template(const std::map<std::string, std::string>& files);

// The same for a folder, a tokenizer_config.json or a .jinja file; throws ConfigError where there is none.
ChatTemplate read_hf_chat_template(const std::filesystem::path& path);

}  // namespace fp
