// `fptrain data train-tokenizer`: trains a tokenizer.json on text files.
#pragma once

#include <cstdint>
#include <string>

#include "data/text/corpus.h"

namespace fp {

struct TrainTokenizerOptions {
  CorpusOptions corpus;
  int32_t vocab_size = 0;      // including the end-of-text token
  uint64_t min_frequency = 2;  // rarer pairs are not merged
};

// Returns the text of the tokenizer.json, which does not depend on the number of threads. Throws ConfigError for
// invalid options, DataError when the text is empty or too small for the vocabulary.
std::string train_tokenizer(const TrainTokenizerOptions& options);

}  // namespace fp
