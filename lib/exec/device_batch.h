// DeviceBatch: this rank's tokens of a batch, on the device.
#pragma once

#include "data/sampling/batch.h"
#include "model/env.h"

namespace fp {

struct DeviceBatch {
  ArenaTensor ids, targets, row_positions, embed_positions, positions, doc_start, sample_ids;
  MicroBatch view;  // of the tensors above; shapes in model/env.h
};

// Copies this rank's tokens of a batch to the device.
DeviceBatch upload(const ModelEnv&, const Batch&, bool training);

// Returns the part of a batch's tokens that this rank processes.
TokenShare share_of(const ModelEnv&, const Batch&);
// Returns the number of targets in that part that are not ignored.
int64_t valid_targets(const Batch&, const TokenShare&);
// Whether this rank counts the rows (samples) of its share in sums over rows: one sequence-parallel rank has to.
inline bool counts_rows(const TokenShare& share) { return share.first_token == 0; }

}  // namespace fp
