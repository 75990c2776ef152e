// A batch of model input: n rows of seq_len tokens in host memory, row-major.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fp {

inline constexpr int32_t kIgnoredTarget = -1;

struct Batch {
  int64_t n = 0;                 // rows: samples * rows_per_sample
  int64_t rows_per_sample = 1;   // preferences: 2 (row 2i is the chosen answer of sample i, row 2i+1 the rejected one)
  int64_t seq_len = 0;           // T
  std::vector<int32_t> tokens;   // [n,T] token ids
  std::vector<int32_t> targets;  // [n,T] the next token's id; kIgnoredTarget for padding, where the loss mask is 0,
                                 // and with document masking for a document's first token
  std::vector<int32_t> positions;  // [n,T] 0..T-1, or counted from the document's first token in the row
  // [n,T] index in the row of the first token of this token's document; 0 without masking
  std::vector<int32_t> doc_start;
  std::vector<uint64_t> sample_ids;  // [n] global sample index (rows of a pair share it): keys the sample's dropout
  int64_t target_bytes = 0;          // bytes of text of the targets: bits per byte = nats / ln 2 / target_bytes

  std::vector<double> reference_logp;  // [n] DPO: log-probability of the row's answer under the reference model

  // Sets the shape and resizes the vectors, whose content is then undefined; clears reference_logp and target_bytes.
  void resize(int64_t samples, int64_t length, int64_t rows_of_each = 1);
};

}  // namespace fp
