// Measures recall: the share of key-value pairs hidden in a text (data/text/key_values.h) whose value a model continues
// their question with.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/text/key_values.h"
#include "model/decoder.h"

namespace fp {

struct NeedleOptions {
  std::vector<int64_t> lengths;  // tokens of a sample, question and answer included
  std::vector<double> depths;    // percent of the text before the pair; every sample has a pair at each
  int64_t samples = 10;          // of each length and depth
  uint64_t seed = 1;
};

// The samples of the depth with index d draw from the stream kNeedleStream + d of KeyValueSeed.
inline constexpr uint32_t kNeedleStream = 16;

struct NeedleRecall {
  int64_t length = 0;
  double depth = 0;
  int64_t samples = 0, right = 0;
  double recall() const { return static_cast<double>(right) / static_cast<double>(samples); }
};

// Throws ConfigError for lengths, depths or numbers that cannot be measured; the message names the flag of `fptrain
// eval` and the legal values.
void check_needle_options(const NeedleOptions&, const KeyValueTexts&);

// Returns the recall of each length and depth, length by length. An answer is right if each of its tokens is the most
// likely one, among those of the tokenizer, after the tokens before it. The model's memory must allow a Decoder of the
// greatest length. `on_progress` receives the number of samples done.
std::vector<NeedleRecall> measure_recall(Model&, const Tokenizer&, const KeyValueTexts&, const NeedleOptions&,
                                         const std::function<void(int64_t done)>& on_progress = {});

}  // namespace fp
