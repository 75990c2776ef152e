// The standard Hugging Face tokenizer.json, for byte-level BPE.
#pragma once

#include <memory>
#include <string>

#include "data/tokenizer/bpe_tokenizer.h"

namespace fp {

// Reads a tokenizer.json. DataError naming `where` and the field for anything malformed, and for every setting that
// would change the ids or the text and is not supported: nothing in the file is ignored.
std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string text, const std::string& where);

// Writes a GPT-2 style tokenizer.json; `definition.pattern` must be kGpt2Pattern.
std::string write_tokenizer_json(const BpeDefinition& definition);

}  // namespace fp
