#include "sharding/partition.h"

#include <algorithm>

#include "base/error.h"

namespace fp {
namespace {

int64_t cut_extent(const Piece& p) { return p.padded > 0 ? p.padded : p.extent; }
int64_t groups_of(const Piece& p) { return p.groups > 0 ? p.groups : p.units; }

void check(const Piece& p, int tp, const std::string& what) {
  FP_CHECK(cut_extent(p) % p.units == 0 && cut_extent(p) >= p.extent && p.units % groups_of(p) == 0,
           "{}: a piece of {} in {} units and {} groups", what, cut_extent(p), p.units, groups_of(p));
  if (tp > p.units && !p.copies)
    throw ConfigError(
        fmt::format("parallel.tensor = {} cannot cut {}, which has {} parts; use 1 to {}", tp, what, p.units, p.units));
}

// Whether b begins where a ends, in both tensors, and the same ranks hold both.
bool follows(const Slab& a, const Slab& b, int dim) {
  return a.start[dim] + a.count[dim] == b.start[dim] && a.local_start + a.count[dim] == b.local_start &&
         a.sharers == b.sharers && a.first == b.first;
}

}  // namespace

IndexRange share_of(const Piece& p, int tp, int index) {
  const int64_t unit = cut_extent(p) / p.units;
  const IndexRange s = split_groups(p.units, groups_of(p), tp, index);
  return {s.first * unit, s.count * unit};
}

Shape local_shape(const Shape& logical, const Partition& partition, int tp, int index, const std::string& what) {
  Shape local = logical;
  if (partition.dim < 0) return local;
  int64_t total = 0, sum = 0;
  for (const Piece& p : partition.pieces) {
    check(p, tp, what);
    total += share_of(p, tp, index).count;
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
  if (partition.dim < 0) return {{origin, logical, 0, tp, index == 0}};
  std::vector<Slab> result;
  int64_t piece_start = 0, local = 0;
  for (const Piece& p : partition.pieces) {
    const IndexRange s = share_of(p, tp, index);
    const int64_t count = std::clamp<int64_t>(p.extent - s.first, 0, s.count);
    if (count > 0) {
      const std::vector<int> sharers = p.copies ? ranks_of_group(p.units, tp, index) : std::vector<int>{index};
      Slab slab{origin, logical, local, static_cast<int>(sharers.size()), sharers.front() == index};
      slab.start[partition.dim] = piece_start + s.first;
      slab.count[partition.dim] = count;
      if (!result.empty() && follows(result.back(), slab, partition.dim))
        result.back().count[partition.dim] += count;
      else
        result.push_back(slab);
    }
    piece_start += p.extent;
    local += s.count;
  }
  return result;
}

namespace {

// Appends elements [begin, end) of a slab with rows of `width`: a partial row, whole rows, a partial row.
void add_fragments(std::vector<Fragment>& list, const Slab& s, int64_t width, int64_t origin, int64_t begin,
                   int64_t end) {
  while (begin < end) {
    const int64_t row = begin / width, column = begin % width;
    const bool whole = column == 0 && end - begin >= width;
    Fragment f{s.start, s.count, origin + begin};
    f.start[0] += row;
    f.count[0] = whole ? (end - begin) / width : 1;
    if (!whole) {
      f.start[1] += column;
      f.count[1] = std::min(width - column, end - begin);
    }
    begin += whole ? f.count[0] * width : f.count[1];
    list.push_back(f);
  }
}

}  // namespace

std::vector<Fragment> fragments(const Shape& logical, const Shape& local, int dim, const std::vector<Slab>& held,
                                int64_t first, int64_t count) {
  FP_CHECK(logical.rank() >= 1 && logical.rank() <= 2 && (dim != 1 || held.size() <= 1),
           "a tensor {} cut along dimension {} in {} slabs", logical.str(), dim, held.size());
  const int64_t width = local.rank() == 2 ? local[1] : 1;
  std::vector<Fragment> list;
  for (const Slab& s : held) {
    // Padded columns would leave gaps inside rows; no such parameter exists.
    FP_CHECK(local.rank() == 1 || s.count[1] == width, "a slab of {} columns in a tensor {}", s.count[1], local.str());
    const int64_t origin = dim == 0 ? s.local_start * width : 0, end = origin + s.count[0] * width;
    add_fragments(list, s, width, origin, std::max(first, origin) - origin, std::min(first + count, end) - origin);
  }
  return list;
}

std::vector<Fragment> chunks(const Fragment& f, int64_t elements) {
  const int64_t rows = f.count[0], width = f.count.elements() / std::max<int64_t>(rows, 1);
  const int64_t step = std::max<int64_t>(1, elements / std::max<int64_t>(width, 1));
  std::vector<Fragment> list;
  for (int64_t row = 0; row < rows; row += step) {
    Fragment part = f;
    part.start[0] += row;
    part.count[0] = std::min(step, rows - row);
    part.offset += row * width;
    list.push_back(part);
  }
  return list;
}

}  // namespace fp
