// Whole documents as samples: which of a dataset's documents are used, by their length.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace fp {

class DocumentSamples {
 public:
  // A document fits when its targets (all its tokens but the first) are at most seq_len. If one does not,
  // long_documents says: "error": DataError with their number and the longest; "drop": it is left out; "truncate": its
  // first seq_len + 1 tokens are used. A document without any target in them is left out: one without a token of an
  // answer, where the dataset has a loss mask. A pair stays or goes as a whole. What is left out is logged. DataError
  // when nothing is left.
  DocumentSamples(const Dataset& dataset, int64_t seq_len, const std::string& long_documents);

  uint64_t size() const { return first_documents_.size(); }
  // The document, the first one of a pair, that a sample stands for.
  uint64_t first_document(uint64_t sample) const { return first_documents_[sample]; }

 private:
  std::vector<uint64_t> first_documents_;
};

}  // namespace fp
