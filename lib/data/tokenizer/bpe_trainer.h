// Learns a byte-level BPE vocabulary from counted words: again and again the most frequent adjacent pair becomes a
// token.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/bpe.h"
#include "data/tokenizer/pretokenizer.h"
#include "data/tokenizer/string_map.h"
#include "data/tokenizer/tokenizer_json.h"

namespace fp {

// How often each word (piece of the pre-tokenizer) occurs.
using WordCounts = StringMap<uint64_t>;

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

struct TrainedBpe {
  std::vector<std::string>
      tokens;                 // the bytes of each, by id: 256 in GPT-2's order, then the merges as they are learned
  std::vector<Merge> merges;  // by rank
};

// Equally frequent pairs are taken in the order of their ids, so the result depends on the counts alone.
// ConfigError as check(); DataError when the words do not hold that many pairs.
TrainedBpe train_bpe(const WordCounts& words, const BpeTrainerOptions& options);

// The tokenizer.json form; the end-of-text token has the id after the last token's.
Gpt2Vocabulary vocabulary_of(const TrainedBpe& trained);

}  // namespace fp
