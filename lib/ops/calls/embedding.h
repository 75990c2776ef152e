// Calls of the embedding of tokens and positions.
#pragma once

#include "ops/calls/call.h"

namespace fp::calls {

// y[M,h] = scale * table[ids] + positions_table[positions]  (positions_table and positions may be empty). An id or a
// position of -1 has no row here and gives zeros, so that the results of row slices of a table add up to the whole.
struct Embedding {
  Tensor y, ids, table, positions = {}, positions_table = {};
  double scale = 1.0;
};

// Adds scale * dy of each token to the row of its id in dtable f32 [V,h], in token order; ids of -1 are skipped.
struct EmbeddingBackward {
  Tensor dtable, dy, ids;
  double scale = 1.0;
};

}  // namespace fp::calls
