// `fptrain data prepare`: converts text files to a folder of token shards (docs/data-format.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/formats/manifest.h"
#include "data/prepare/document_encoder.h"
#include "data/text/corpus.h"

namespace fp {

struct PrepareOptions {
  CorpusOptions corpus;
  std::string tokenizer;                  // "bytes" or the path of a tokenizer.json
  std::filesystem::path out;              // the folder to create
  double validation_fraction = 0.1;       // fraction of the documents that is held out; 0: none
  std::string validation_split = "last";  // last: the documents at the end | hash: by the hash of the text
  uint64_t shard_tokens = uint64_t{1} << 28;
  EncodingOptions encoding;
  bool overwrite = false;  // replace an earlier prepared folder
};

// Returns the manifest of the new folder. The folder appears complete or not at all: it is written beside `out` and
// renamed. Its content does not depend on the number of threads. Throws ConfigError for invalid options, DataError for
// malformed, empty or too little text.
Manifest prepare(const PrepareOptions& options);

}  // namespace fp
