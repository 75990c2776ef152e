#include "model/flat_layout.h"

#include <algorithm>

namespace fp {

FlatLayout::FlatLayout(const ParamTable& table, bool sharded, std::optional<int> slot) : sharded_(sharded) {
  for (const ParamUnit& u : table.units()) {
    const Segment held = sharded ? table.shard_of(u, table.shard()) : Segment{u.offset, u.elements};
    for (ParamId id = u.first; id <= u.last; ++id) {
      if (slot && !table.has_slot(id, *slot)) continue;
      // The gap behind a parameter belongs to it.
      const int64_t begin = std::max(table[id].offset, held.offset);
      const int64_t end =
          std::min(id < u.last ? table[id + 1].offset : u.offset + u.elements, held.offset + held.count);
      if (begin >= end) continue;
      if (!runs_.empty() && runs_.back().flat.offset + runs_.back().flat.count == begin)
        runs_.back().flat.count += end - begin;
      else
        runs_.push_back({{begin, end - begin}, elements_});
      elements_ += end - begin;
    }
  }
}

int64_t FlatLayout::before(int64_t flat) const {
  auto run = std::ranges::upper_bound(runs_, flat, {}, [](const Run& r) { return r.flat.offset; });
  if (run == runs_.begin()) return 0;
  --run;
  return run->offset + std::min(flat - run->flat.offset, run->flat.count);
}

Segment FlatLayout::within(const Segment& flat) const {
  const int64_t begin = before(flat.offset);
  return {begin, before(flat.offset + flat.count) - begin};
}

Segment FlatLayout::at(const Segment& flat) const {
  const Segment here = within(flat);
  if (here.count != flat.count)
    throw InternalError(fmt::format("elements [{}, +{}) are not kept here", flat.offset, flat.count));
  return here;
}

std::vector<Segment> FlatLayout::ranges(const ParamUnit& u) const {
  std::vector<Segment> list;
  for (const Run& r : runs_) {
    const int64_t begin = std::max(r.flat.offset, u.offset);
    const int64_t end = std::min(r.flat.offset + r.flat.count, u.offset + u.elements);
    if (begin < end) list.push_back({begin, end - begin});
  }
  return list;
}

}  // namespace fp
