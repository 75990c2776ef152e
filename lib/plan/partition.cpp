#include "plan/partition.h"

#include <algorithm>

namespace fp {
namespace {

int64_t cut_extent(const Piece& p) { return p.padded > 0 ? p.padded : p.extent; }

// Length of one rank's share of a piece, and where the share of rank `index` starts.
int64_t share(const Piece& p, int tp) { return p.units >= tp ? cut_extent(p) / tp : cut_extent(p) / p.units; }
int64_t share_start(const Piece& p, int tp, int index) {
  return p.units >= tp ? share(p, tp) * index : share(p, tp) * (index * p.units / tp);
}

}  // namespace

Shape local_shape(const Shape& logical, const Partition& partition, int tp, const std::string& what) {
  Shape local = logical;
  if (partition.dim < 0) return local;
  int64_t total = 0, sum = 0;
  for (const Piece& p : partition.pieces) {
    FP_CHECK(cut_extent(p) % p.units == 0 && cut_extent(p) >= p.extent, "{}: a piece of {} in {} units", what,
             cut_extent(p), p.units);
    if (p.units % tp != 0 && tp % p.units != 0)
      throw ConfigError(fmt::format("parallel.tensor = {} cannot cut {} ({} parts); use a divisor or a multiple of {}",
                                    tp, what, p.units, p.units));
    total += share(p, tp);
    sum += p.extent;
  }
  FP_CHECK(sum == logical[partition.dim], "{}: pieces sum to {}, the dimension is {}", what, sum,
           logical[partition.dim]);
  local[partition.dim] = total;
  return local;
}

std::vector<Slab> slabs(const Shape& logical, const Partition& partition, int tp, int index) {
  Shape origin = logical;
  for (int i = 0; i < origin.rank(); ++i) origin[i] = 0;
  if (partition.dim < 0) return {{origin, logical, 0}};
  std::vector<Slab> result;
  int64_t piece_start = 0, local = 0;
  for (const Piece& p : partition.pieces) {
    const int64_t length = share(p, tp), begin = share_start(p, tp, index);
    const int64_t count = std::clamp<int64_t>(p.extent - begin, 0, length);
    if (count > 0) {
      Slab s{origin, logical, local};
      s.start[partition.dim] = piece_start + begin;
      s.count[partition.dim] = count;
      result.push_back(s);
    }
    piece_start += p.extent;
    local += length;
  }
  return result;
}

}  // namespace fp
