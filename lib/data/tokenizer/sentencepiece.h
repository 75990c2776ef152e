// SentencePiece's .model files: a protobuf with the pieces, the training settings and the normalization.
#pragma once

#include <string>
#include <string_view>

#include "data/tokenizer/source.h"

namespace fp {

bool looks_like_sentencepiece(std::string_view content);

// BPE models with identity normalization: flags add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces,
// byte_fallback; pieces of every type. Each stretch between added tokens gets a dummy prefix, as in the tokenizer.json
// of these models. Control pieces and the unknown piece are special added tokens. DataError for unigram, word and char
// models, a character map (such as nmt_nfkc's), treat_whitespace_as_suffix, and malformed files.
TokenizerDefinition parse_sentencepiece(const TokenizerSource& source, const std::string& where);

}  // namespace fp
