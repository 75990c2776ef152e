// Parses SentencePiece's .model files: a protobuf with the pieces, the training settings and the normalization.
#pragma once

#include <string>
#include <string_view>

#include "data/tokenizer/source.h"

namespace fp {

bool looks_like_sentencepiece(std::string_view content);

// Parses a BPE model with identity normalization, with the flags add_dummy_prefix, remove_extra_whitespaces,
// escape_whitespaces and byte_fallback, and pieces of every type. Each segment between added tokens gets a dummy
// prefix, as in the tokenizer.json of these models. Control pieces and the unknown piece are added tokens; control
// pieces are special. Throws DataError for unigram, word and char models, a character map (such as nmt_nfkc's),
// treat_whitespace_as_suffix, and malformed files.
TokenizerDefinition parse_sentencepiece(const TokenizerSource& source, const std::string& where);

}  // namespace fp
