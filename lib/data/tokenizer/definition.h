// What a tokenizer file says, whatever its format: the one value that every parser makes and BpeTokenizer runs.
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

// SentencePiece writes spaces as this character.
inline constexpr std::string_view kSpaceMark = "\u2581";

// Ids may leave holes, but a small file must not ask for a large table: ids of a file that lists `tokens` are below
// this.
inline size_t most_ids(size_t tokens) { return std::min(static_cast<size_t>(kMaxTokenIds), 16 * tokens + 131072); }

struct TokenizerDefinition {
  std::string kind;                                // Tokenizer::kind()
  std::vector<std::optional<std::string>> tokens;  // by id: what it decodes to; nothing where there is no such id
  BpeRules rules;
  std::vector<AddedToken> added;
  std::vector<TextStep> normalizer, pre_tokenizer;
  std::vector<int32_t> prefix_ids, suffix_ids;
  std::string dummy_prefix;
  std::optional<int32_t> bos, eot;  // nothing: found among the added tokens by their usual names
};

}  // namespace fp
