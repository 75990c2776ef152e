// Where a tokenizer came from: the main file, and what the files beside it add. Its serialized form is one text, so
// that a checkpoint carries everything.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizer.h"
#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/definition.h"

namespace fp {

struct TokenizerSource {
  enum class Format { tokenizer_json, sentencepiece, tiktoken };
  Format format = Format::tokenizer_json;
  std::string data;  // the main file
  // SentencePiece and tiktoken: from added_tokens.json and tokenizer_config.json.
  std::vector<AddedToken> added;
  bool add_bos = false, add_eos = false;
  // Contents of added tokens.
  std::optional<std::string> bos_token, eos_token;
};

// A main file with nothing beside it.
inline TokenizerSource source_of(TokenizerSource::Format format, std::string data) {
  TokenizerSource source;
  source.format = format;
  source.data = std::move(data);
  return source;
}

// The source of a file's content, or of what serialize() wrote. DataError when it is none of the known formats.
TokenizerSource recognise_tokenizer(std::string content, const std::string& where);
// A tokenizer.json with nothing added is its own serialized form; the others are JSON around the main file.
std::string serialize(const TokenizerSource& source);
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerSource& source, const std::string& where);

// A Hugging Face folder (load_tokenizer says which files).
std::unique_ptr<Tokenizer> load_tokenizer_folder(const std::filesystem::path& folder);

// Adds what the source's other files say to a definition whose vocabulary lists `listed` contents.
void add_tokens_of(const TokenizerSource& source, const StringMap<int32_t>& listed, const std::string& where,
                   TokenizerDefinition& definition);

}  // namespace fp
