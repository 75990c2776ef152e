// Trains a byte-level BPE vocabulary from word counts: the most frequent adjacent pair repeatedly becomes a token.
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

// The number of occurrences of each word (a piece of the pre-tokenizer).
using WordCounts = StringMap<uint64_t>;

struct BpeTrainerOptions {
  int32_t vocab_size = 0;  // 256 bytes + merges + the end-of-text token + the special tokens
  std::vector<std::string> special_tokens;
  uint64_t min_frequency = 2;                                    // rarer pairs are not merged
  std::function<void(int64_t done, int64_t total)> on_progress;  // optional; called periodically
};

// Throws ConfigError when vocab_size is below 257 and the number of special tokens, and when one of these is empty, is
// repeated or is the end-of-text token.
void check(const BpeTrainerOptions& options);

inline constexpr const char* kEndOfTextToken = "<|endoftext|>";

// Splits `text` by GPT-2's pattern, which `splitter` must hold, and adds its words to `counts`.
void count_words(std::string_view text, PieceSplitter& splitter, WordCounts& counts);

struct TrainedBpe {
  // The bytes of each token, by id: the 256 byte values in GPT-2's order, then the merges as they are learned.
  std::vector<std::string> tokens;
  std::vector<Merge> merges;  // by rank
};

// Trains a vocabulary. Equally frequent pairs are merged in the order of their ids, so the result depends on the counts
// only. Throws ConfigError as check() does, and DataError when the words do not contain enough pairs.
TrainedBpe train_bpe(const WordCounts& words, const BpeTrainerOptions& options);

// Converts to the form that write_tokenizer_json() takes. The end-of-text token has the id after the last token's, and
// the special tokens follow it.
Gpt2Vocabulary vocabulary_of(const TrainedBpe& trained, const std::vector<std::string>& special_tokens = {});

}  // namespace fp
