// Partition: which part of a logical tensor each tensor-parallel rank holds. Pure arithmetic.
//
// A tensor is either replicated or cut along one dimension. That dimension is a sequence of pieces (Q, K and V of a
// fused projection; gate and up), each of which consists of `units` (heads, rows) that are split over the ranks
// (sharding/head_split.h). A rank's local tensor is the concatenation of its parts of the pieces. A padded piece (the
// vocabulary) is cut in its padded extent; rows beyond the logical extent exist only locally, as zeros.
#pragma once

#include <string>
#include <vector>

#include "base/box.h"
#include "sharding/head_split.h"

namespace fp {

struct Piece {
  int64_t extent = 0;   // logical length along the cut dimension
  int64_t units = 1;    // number of indivisible units
  int64_t padded = 0;   // length that is cut, >= extent; 0: extent
  int64_t groups = 0;   // groups of units that are not split if there are enough (heads of a kv head); 0: units
  bool copies = false;  // with more ranks than units, neighbouring ranks hold copies (kv heads); else an error
  bool operator==(const Piece&) const = default;
};

struct Partition {
  int dim = -1;               // -1: replicated
  std::vector<Piece> pieces;  // their extents sum to shape[dim]

  static Partition replicated() { return {}; }
  static Partition cut(int dim, std::vector<Piece> pieces) { return {dim, std::move(pieces)}; }
};

// A box of the logical tensor, of full extent in every dimension but the cut one, and where it starts in the local
// tensor.
struct Slab : Box {
  int64_t local_start = 0;  // along the cut dimension of the local tensor (0 when replicated)
  int sharers = 1;          // tensor-parallel ranks that hold it
  bool first = true;        // whether this rank is the first of them
};

// Returns the part of a piece that rank `index` of `tp` holds, along the cut dimension, in its padded extent.
IndexRange share_of(const Piece&, int tp, int index);

// Returns the local shape, padding included. Throws ConfigError naming `what` if there are more ranks than units in a
// piece without `copies`.
Shape local_shape(const Shape& logical, const Partition&, int tp, int index, const std::string& what);

// Returns the boxes that tensor-parallel rank `index` of `tp` holds, in local order. Empty boxes are left out; boxes
// that are adjacent in both tensors are merged.
std::vector<Slab> slabs(const Shape& logical, const Partition&, int tp, int index);

// A box of the logical tensor whose elements are contiguous in the local tensor, from `offset` on.
struct Fragment : Box {
  int64_t offset = 0;  // elements
};

// Returns local elements [first, first + count), without padding, as fragments in local order. Tensors have one or two
// dimensions.
std::vector<Fragment> fragments(const Shape& logical, const Shape& local, int dim, const std::vector<Slab>&,
                                int64_t first, int64_t count);

// Splits a fragment into pieces of whole rows of at most `elements` elements each, or of one row.
std::vector<Fragment> chunks(const Fragment&, int64_t elements);

}  // namespace fp
