// Partition: which part of a logical tensor a tensor-parallel rank holds. Pure arithmetic.
//
// A tensor is either replicated or cut along one dimension. That dimension is a row of pieces (Q, K and V of a fused
// projection; gate and up), each cut by itself into `units` (heads, rows) and dealt evenly to the ranks; a rank's local
// tensor is its share of each piece, one after the other. Fewer units than ranks: neighbouring ranks hold copies.
// A padded piece (the vocabulary) is cut in its padded extent; rows beyond the logical extent exist only locally, as
// zeros.
#pragma once

#include <vector>

#include "base/shape.h"

namespace fp {

struct Piece {
  int64_t extent = 0;  // logical length along the cut dimension
  int64_t units = 1;   // indivisible parts it consists of
  int64_t padded = 0;  // length that is cut, >= extent; 0: extent
  bool operator==(const Piece&) const = default;
};

struct Partition {
  int dim = -1;               // -1: replicated
  std::vector<Piece> pieces;  // their extents sum to shape[dim]

  static Partition replicated() { return {}; }
  static Partition cut(int dim, std::vector<Piece> pieces) { return {dim, std::move(pieces)}; }
};

// A box of the logical tensor and where it starts in the local one (all ranks of the box equal in every other
// dimension).
struct Slab {
  Shape start, count;       // in the logical tensor
  int64_t local_start = 0;  // along the cut dimension of the local tensor (0 when replicated)
};

// The local shape, padding included. ConfigError naming `what` when a piece cannot be dealt to tp ranks.
Shape local_shape(const Shape& logical, const Partition&, int tp, const std::string& what);

// The boxes that tensor-parallel rank `index` of `tp` holds, in local order; empty boxes are left out.
std::vector<Slab> slabs(const Shape& logical, const Partition&, int tp, int index);

}  // namespace fp
