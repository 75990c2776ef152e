// Selects the documents of a dataset that are used as samples, by their length.
#pragma once

#include <cstdint>
#include <vector>

#include "config/choices.h"
#include "data/formats/dataset.h"

namespace fp {

class DocumentSamples {
 public:
  // A document fits when its targets (all its tokens but the first) are at most seq_len. `long_documents` selects what
  // happens to one that does not fit: `error` throws DataError with the number of such documents and the longest;
  // `drop` omits it; `truncate` uses its first seq_len + 1 tokens. A document without any target among the used tokens
  // is omitted; where the dataset has a loss mask, only tokens of answers are targets. A pair is kept or omitted as a
  // whole. Omitted documents are logged. Throws DataError when no document remains.
  DocumentSamples(const Dataset& dataset, int64_t seq_len, LongDocuments long_documents);

  uint64_t size() const { return first_documents_.size(); }
  // Returns the index of the document of a sample; for a pair, of its first document.
  uint64_t first_document(uint64_t sample) const { return first_documents_[sample]; }

 private:
  std::vector<uint64_t> first_documents_;
};

}  // namespace fp
