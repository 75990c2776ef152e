// Builds the merge table of vocabularies that rank tokens instead of pairs (tiktoken, SentencePiece): two neighbours
// may be joined where their concatenation is a token.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizer/bpe.h"

namespace fp {

struct RankedToken {
  std::string text;
  int32_t id = 0;
  int32_t rank = 0;
};

// Limits the work for one token; published vocabularies have tokens of at most 128 bytes.
inline constexpr size_t kMaxTokenBytes = 1024;

// Returns a merge for every split of every token into two halves that are symbols: tokens, or (Symbols::characters)
// single characters that are not tokens. Texts must be unique, at most kMaxTokenBytes long, and well-formed UTF-8 where
// symbols are characters.
std::vector<Merge> join_table(const std::vector<RankedToken>& tokens, BpeRules::Symbols symbols);

}  // namespace fp
