// Partition: which part of a logical tensor a tensor-parallel rank holds. Pure arithmetic.
//
// A tensor is either replicated or cut along one dimension. That dimension is a row of pieces (Q, K and V of a fused
// projection; gate and up), each cut by itself into `units` (heads, rows) and dealt to the ranks (plan/deal.h); a
// rank's local tensor is its share of each piece, one after the other. A padded piece (the vocabulary) is cut in its
// padded extent; rows beyond the logical extent exist only locally, as zeros.
#pragma once

#include <string>
#include <vector>

#include "base/shape.h"
#include "plan/deal.h"

namespace fp {

struct Piece {
  int64_t extent = 0;   // logical length along the cut dimension
  int64_t units = 1;    // indivisible parts it consists of
  int64_t padded = 0;   // length that is cut, >= extent; 0: extent
  int64_t groups = 0;   // of the units: dealt whole where there are enough (query heads of a kv head); 0: units
  bool copies = false;  // more ranks than units: neighbouring ranks hold copies (kv heads); else that is refused
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
  int sharers = 1;          // tensor-parallel ranks that hold it
  bool first = true;        // whether this rank is the first of them
};

// A rank's share of a piece along the cut dimension, in its padded extent.
Share share_of(const Piece&, int tp, int index);

// The local shape, padding included. ConfigError naming `what` when there are more ranks than a piece has units.
Shape local_shape(const Shape& logical, const Partition&, int tp, int index, const std::string& what);

// The boxes that tensor-parallel rank `index` of `tp` holds, in local order; empty boxes are left out, those that touch
// in both tensors are joined.
std::vector<Slab> slabs(const Shape& logical, const Partition&, int tp, int index);

// A box of the logical tensor whose elements lie one after the other in the local one, from `offset` on.
struct Fragment {
  Shape start, count;
  int64_t offset = 0;  // elements
};

// Local elements [first, first + count), padding left out, as fragments in local order. Tensors of one dimension, or
// cut along one of their first two.
std::vector<Fragment> fragments(const Shape& logical, const Shape& local, int dim, const std::vector<Slab>&,
                                int64_t first, int64_t count);

// A fragment in pieces of whole rows, at most `elements` of them in each (or one row).
std::vector<Fragment> chunks(const Fragment&, int64_t elements);

}  // namespace fp
