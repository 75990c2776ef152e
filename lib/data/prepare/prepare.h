// `fptrain data prepare`: converts text files to a folder of token shards (docs/data-format.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/formats/manifest.h"
#include "data/prepare/document_encoder.h"
#include "data/text/corpus.h"
#include "data/text/inputs.h"

namespace fp {

struct PrepareOptions {
  CorpusOptions corpus;                   // its files may be folders
  std::string tokenizer;                  // "bytes" or the path of a tokenizer.json
  std::filesystem::path out;              // the folder to create
  double validation_fraction = 0.1;       // fraction of the documents that is held out; 0: none
  std::string validation_split = "last";  // last: the documents at the end | hash: by the hash of the text
  // Training documents of at least this many tokens are left out if they repeat a held-out one; 0: none are.
  uint64_t drop_repeats = 64;
  uint64_t shard_tokens = uint64_t{1} << 28;
  EncodingOptions encoding;
  bool overwrite = false;  // replace an earlier prepared folder
};

// The input that prepare() left out or took with reservations, beside what the manifest counts.
struct InputReport {
  std::vector<SkippedInput> skipped;
  std::vector<std::filesystem::path> empty_files;
  std::vector<std::string> not_text;             // TextCensus::accepted()
  std::optional<std::filesystem::path> divided;  // the file whose end is held out
};

// A mean number of tokens per document below this is reported: the model learns to end its text after so few.
inline constexpr uint64_t kShortDocument = 64;

// Returns the manifest of the new folder. The folder appears complete or not at all: it is written beside `out` and
// renamed. Its content does not depend on the number of threads. Throws ConfigError for invalid options, DataError for
// malformed, empty or too little text, and for files that are not text. Where files are documents
// and there are fewer than 1 / validation_fraction of them, --validation-split last holds out the end of the last file.
Manifest prepare(const PrepareOptions& options, InputReport* report = nullptr);

}  // namespace fp
