// The files that a tokenizer was read from: the main file and additions from the files beside it. They serialize to one
// text, so that a checkpoint carries the whole tokenizer.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/definition.h"
#include "data/tokenizer/tokenizer.h"

namespace fp {

struct TokenizerSource {
  enum class Format { tokenizer_json, sentencepiece, tiktoken };
  Format format = Format::tokenizer_json;
  std::string data;  // the main file
  // SentencePiece and tiktoken only: from added_tokens.json and tokenizer_config.json.
  std::vector<AddedToken> added;
  bool add_bos = false, add_eos = false;
  // Contents of added tokens.
  std::optional<std::string> bos_token, eos_token;
};

// Returns the source of a main file without additions.
inline TokenizerSource source_of(TokenizerSource::Format format, std::string data) {
  TokenizerSource source;
  source.format = format;
  source.data = std::move(data);
  return source;
}

// Returns the content of a tokenizer's file. Throws DataError, without reading it, for a file of more than 256 MiB and
// for what is no regular file.
std::string read_tokenizer_file(const std::filesystem::path&);
// Parses the content of a file, or the result of serialize(). Throws DataError when it is not in a known format.
TokenizerSource recognise_tokenizer(std::string content, const std::string& where);
// Returns one text that recognise_tokenizer() reads. A tokenizer.json without additions is its own serialized form; the
// others are JSON around the main file.
std::string serialize(const TokenizerSource& source);
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerSource& source, const std::string& where);

// Loads the tokenizer of a Hugging Face folder (load_tokenizer() lists the files).
std::unique_ptr<Tokenizer> load_tokenizer_folder(const std::filesystem::path& folder);

// Adds the added tokens of `source` to a definition. `listed` maps the texts of the vocabulary to their ids. Throws
// DataError naming `where` for an id that is too large or conflicts.
void add_tokens_of(const TokenizerSource& source, const StringMap<int32_t>& listed, const std::string& where,
                   TokenizerDefinition& definition);

}  // namespace fp
