// `fptrain data prepare`: text files to a folder of token shards (docs/data-format.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/corpus.h"
#include "data/document_encoder.h"
#include "data/manifest.h"

namespace fp {

struct PrepareOptions {
  CorpusOptions corpus;
  std::string tokenizer;                  // "bytes" or the path of a tokenizer.json
  std::filesystem::path out;              // folder to make
  double validation_fraction = 0.1;       // 0: everything is training text
  std::string validation_split = "last";  // last: that share of the documents, from the end | hash: by the text's hash
  uint64_t shard_tokens = uint64_t{1} << 28;
  EncodingOptions encoding;
  bool overwrite = false;  // replace an earlier prepared folder
};

// The folder appears complete or not at all: it is written beside `out` and renamed. What it holds does not depend on
// the number of threads. ConfigError for bad options, DataError for bad, empty or too little text.
Manifest prepare(const PrepareOptions& options);

}  // namespace fp
