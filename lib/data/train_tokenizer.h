// `fptrain data train-tokenizer`: text files to a tokenizer.json.
#pragma once

#include <cstdint>
#include <string>

#include "data/corpus.h"

namespace fp {

struct TrainTokenizerOptions {
  CorpusOptions corpus;
  int32_t vocab_size = 0;      // end-of-text token included
  uint64_t min_frequency = 2;  // pairs seen less often are not merged
};

// The text of the tokenizer.json. It does not depend on the number of threads.
// ConfigError for bad options, DataError when the text is empty or too small for the vocabulary.
std::string train_tokenizer(const TrainTokenizerOptions& options);

}  // namespace fp
