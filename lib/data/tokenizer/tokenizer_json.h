// Reads and writes Hugging Face's tokenizer.json.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizer/definition.h"
#include "data/tokenizer/json_reader.h"

namespace fp {

// Parses a tokenizer.json with a BPE model. Throws DataError naming `where` and the field for anything malformed, and
// for every unsupported setting that would change the ids or the text: nothing in the file is ignored.
TokenizerDefinition parse_tokenizer_json(const std::string& text, const std::string& where);

// Read and write an entry of added_tokens (with its id) or of tokenizer_config.json's added_tokens_decoder (without).
AddedToken read_added_token(const JsonValue& json, int32_t id);
Json added_token_json(const AddedToken& token);

// Adds an added token, which decodes to `text`, to the definition. `listed`: the id of its content in the vocabulary,
// if there. Throws DataError at `json` when the two ids differ or the id belongs to another token.
void add_token(TokenizerDefinition& definition, const AddedToken& token, std::string text,
               std::optional<int32_t> listed, const JsonValue& json);

// A GPT-2 style byte-level tokenizer. Texts are in the byte alphabet.
struct Gpt2Vocabulary {
  std::vector<std::pair<std::string, int32_t>> vocab;
  std::vector<std::pair<std::string, std::string>> merges;  // by rank
  std::pair<std::string, int32_t> end_of_text;              // may be in `vocab` too
  std::vector<std::pair<std::string, int32_t>> special;     // the other special tokens; may be in `vocab` too
  std::vector<AddedToken> added;                            // further tokens, with flags; may be in `vocab` too
  bool prefix_space = false;                                // a text begins with a space
};
// Returns the vocabulary as the text of a tokenizer.json.
std::string write_tokenizer_json(const Gpt2Vocabulary& vocabulary);

}  // namespace fp
