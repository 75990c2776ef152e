// Learns a byte-level BPE vocabulary from counted words: again and again the most frequent adjacent pair becomes a
// token.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/bpe_tokenizer.h"

namespace fp {

struct WordHash {
  using is_transparent = void;
  size_t operator()(std::string_view word) const;
};
// How often each word (piece of the pre-tokenizer) occurs.
using WordCounts = std::unordered_map<std::string, uint64_t, WordHash, std::equal_to<>>;

struct BpeTrainerOptions {
  int32_t vocab_size = 0;                                        // 256 bytes + merges + the end-of-text token
  uint64_t min_frequency = 2;                                    // pairs seen less often are not merged
  std::function<void(int64_t done, int64_t total)> on_progress;  // optional, called now and then
};

// ConfigError when vocab_size is below 257.
void check(const BpeTrainerOptions& options);

inline constexpr const char* kEndOfTextToken = "<|endoftext|>";

// Adds the words of `text`, cut by GPT-2's pattern, to `counts`. `splitter` must hold that pattern.
void count_words(std::string_view text, PieceSplitter& splitter, WordCounts& counts);

// Ids: 0-255 the bytes in GPT-2's order, then the merges in the order they are learned, last the end-of-text token.
// Equally frequent pairs are taken in the order of their ids, so the result depends on the counts alone.
// ConfigError as check(); DataError when the words do not hold that many pairs.
BpeDefinition train_bpe(const WordCounts& words, const BpeTrainerOptions& options);

}  // namespace fp
