// Counts, for each input file, its documents and the bytes that are not text, so that files without text and files that
// are not text are reported by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/text/corpus.h"

namespace fp {

struct FileCount {
  uint64_t documents = 0;  // those with text
  uint64_t bytes = 0;      // of its documents; JSON lines are not counted, as their parser refuses what is not text
  uint64_t not_text = 0;   // bytes_not_text() of them
};

// The counts of the files of one batch, in the order of the files.
using BatchCount = std::vector<std::pair<size_t, FileCount>>;
BatchCount count_text(const DocumentBatch& batch);

class TextCensus {
 public:
  explicit TextCensus(const CorpusOptions& corpus) : corpus_(corpus), files_(corpus.files.size()) {}

  void add(const BatchCount& batch);
  // Throws DataError naming the files of which more than 1 % is not text, unless CorpusOptions::allow_bytes.
  void require_text() const;
  // Returns the files that have no document with text.
  std::vector<std::filesystem::path> empty_files() const;
  // Returns a line for each file that is accepted although some of it is not text: "a.txt: 3 of 1000 bytes".
  std::vector<std::string> accepted() const;

 private:
  std::string describe(size_t file) const;

  const CorpusOptions& corpus_;
  std::vector<FileCount> files_;
};

// Returns the first few names and the number of the others: "a, b, c and 42 more".
std::string some_of(const std::vector<std::string>& names, size_t most = 3);

}  // namespace fp
