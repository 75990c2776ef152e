// `fptrain data key-values`: writes a corpus of synthetic documents that teach recall (data/text/key_values.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/formats/dataset.h"

namespace fp {

struct KeyValueCorpusOptions {
  DatasetSource filler;  // its training split, with its tokenizer
  std::filesystem::path out;
  std::vector<int64_t> lengths;  // tokens of the documents, with their end-of-text token; each divides the greatest
  int64_t samples = 0;           // of the greatest length
  bool ask_at_end = false;       // KeyValueTexts::Asked
  uint64_t seed = 1;
  bool overwrite = false;
};

struct KeyValueCorpusResult {
  uint64_t documents = 0, tokens = 0;
};

// Writes a prepared folder without a held-out split. Each sample has documents of one of the lengths, drawn at random,
// that fill it exactly; the last document is one token longer. So packed windows of a `data.seq_len` of the greatest
// length are whole samples. One document is in memory at a time. The folder appears complete or not at all. Throws
// ConfigError for invalid options, and what open_dataset() throws.
KeyValueCorpusResult write_key_value_corpus(const KeyValueCorpusOptions&);

}  // namespace fp
