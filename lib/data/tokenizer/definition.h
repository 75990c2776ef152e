// The content of a tokenizer file, independent of its format: every parser returns one, and BpeTokenizer executes it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/text_steps.h"

namespace fp {

// The character (U+2581) that represents a space in SentencePiece models.
inline constexpr std::string_view kSpaceMark = "\u2581";

// Ids need not be contiguous, but a small file must not demand a large table: the ids of a file that lists `tokens`
// tokens must be below this.
inline size_t max_ids(size_t tokens) { return std::min(static_cast<size_t>(kMaxTokenIds), 16 * tokens + 131072); }

struct TokenizerDefinition {
  std::string kind;                                // Tokenizer::kind()
  std::vector<std::optional<std::string>> tokens;  // by id: the text it decodes to; nothing for an unused id
  BpeRules rules;
  std::vector<AddedToken> added;
  std::vector<TextStep> normalizer, pre_tokenizer;
  std::vector<int32_t> prefix_ids, suffix_ids;
  std::string dummy_prefix;
  std::optional<int32_t> bos, eot;  // nothing: the added token with one of the usual names
};

}  // namespace fp
