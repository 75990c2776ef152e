// DeviceBatch: this rank's tokens of a batch, on the device.
#pragma once

#include <vector>

#include "data/sampling/batch.h"
#include "model/env.h"

namespace fp {

// Returns part `i` of n equal parts of a tensor along its first dimension; an empty tensor if it is empty.
inline Tensor part_of(const Tensor& t, size_t i, size_t n) {
  if (!t) return {};
  const int64_t count = t.shape[0] / static_cast<int64_t>(n);
  return t.slice(static_cast<int64_t>(i) * count, count);
}

struct DeviceBatch {
  ArenaTensor ids, targets, row_positions, embed_positions, positions, doc_start, sample_ids;
  std::vector<MicroBatch> chunks;  // views of the tensors above, of equal shapes (model/env.h)

  int64_t rows() const { return static_cast<int64_t>(chunks.size()) * chunks.front().rows(); }
  // Returns the part of a tensor that belongs to a chunk, if each has as many of its first dimension.
  Tensor of_chunk(const Tensor& t, size_t chunk) const { return part_of(t, chunk, chunks.size()); }
};

// Copies this rank's tokens of a batch to the device.
DeviceBatch upload(const ModelEnv&, const Batch&, bool training);

// Returns the part of a batch's tokens that this rank processes, by chunk.
std::vector<TokenShare> shares_of(const ModelEnv&, const Batch&);
// Returns the number of targets in that part that are not ignored.
int64_t valid_targets(const Batch&, const std::vector<TokenShare>&);
// Whether this rank counts the rows (samples) of its share in sums over rows: one sequence-parallel rank has to.
inline bool counts_rows(const std::vector<TokenShare>& shares) { return shares.front().first_token == 0; }

}  // namespace fp
