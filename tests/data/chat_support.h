// Tokenizers with the special tokens of chat templates.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "data/support.h"

namespace fp::test {

// Byte-level BPE without merges. The tokens of `special` have the ids from 300 on, in this order; `rstrip` is their
// flag of that name. The end-of-text token, id 256, is <|endoftext|>.
inline std::string chat_tokenizer_json(const std::vector<std::string>& special, bool rstrip) {
  nlohmann::json json = nlohmann::json::parse(trained_json("a", 257));
  int id = 300;
  for (const std::string& content : special)
    json["added_tokens"].push_back({{"id", id++},
                                    {"content", content},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", rstrip},
                                    {"normalized", false},
                                    {"special", true}});
  return json.dump();
}

inline std::string phi_tokenizer_json(bool rstrip) {
  return chat_tokenizer_json({"<|system|>", "<|user|>", "<|assistant|>", "<|end|>"}, rstrip);
}
inline std::string llama_tokenizer_json() {
  return chat_tokenizer_json({"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}, false);
}

}  // namespace fp::test
