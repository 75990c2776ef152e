// `fptrain data train-tokenizer`: trains a tokenizer.json on text files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/text/corpus.h"
#include "data/text/inputs.h"

namespace fp {

struct TrainTokenizerOptions {
  CorpusOptions corpus;                     // its files may be folders
  int32_t vocab_size = 0;                   // including the end-of-text token and the special tokens
  std::vector<std::string> special_tokens;  // get the ids after the end-of-text token, in this order
  uint64_t min_frequency = 2;               // rarer pairs are not merged
};

// The special tokens that `train-tokenizer` reserves by default: those of the chat templates chatml and phi3, and two
// for a template of one's own.
const std::vector<std::string>& default_special_tokens();

// Returns the text of the tokenizer.json, which does not depend on the number of threads. Reports in `skipped` what was
// left out of folders. Throws ConfigError for invalid options, DataError when the text is empty or too small for the
// vocabulary, and for files that are not text.
std::string train_tokenizer(const TrainTokenizerOptions& options, std::vector<SkippedInput>* skipped = nullptr);

}  // namespace fp
