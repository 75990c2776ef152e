// A batch on the device: this rank's share of its tokens.
#pragma once

#include "data/batch.h"
#include "model/env.h"

namespace fp {

struct Staged {
  ArenaTensor ids, targets, row_positions, embed_positions, positions, doc_start, sample_ids;
  MicroBatch view;
};

Staged stage(const ModelEnv&, const Batch&, bool training);

// This rank's share of the tokens of a batch.
TokenShare share_of(const ModelEnv&, const Batch&);
// Targets in that share that are not ignored.
int64_t valid_targets(const Batch&, const TokenShare&);
// Whether this rank stands for the whole rows of its share, in sums over rows and not over tokens.
inline bool counts_rows(const TokenShare& share) { return share.first_token == 0; }

}  // namespace fp
