#include "model/flat_layout.h"

#include <algorithm>

namespace fp {

namespace {

// Calls `use` with the ranges of the table's flat buffers that a shard has of the parameters with a slot.
template <class Use>
void for_each_range(const ParamTable& table, std::optional<int> shard, std::optional<int> slot, const Use& use) {
  for (const ParamUnit& u : table.units()) {
    const std::vector<IndexRange> whole = {{u.offset, u.elements}};
    for (const IndexRange& held : shard ? table.ranges_of(u, *shard, slot.value_or(kParamSlot)) : whole)
      for (ParamId id = u.first; id <= u.last; ++id) {
        if (slot && !table.has_slot(id, *slot)) continue;
        // The gap behind a parameter belongs to it.
        const int64_t begin = std::max(table[id].offset, held.first);
        const int64_t end =
            std::min(id < u.last ? table[id + 1].offset : u.offset + u.elements, held.first + held.count);
        if (begin < end) use(IndexRange{begin, end - begin});
      }
  }
}

}  // namespace

FlatLayout::FlatLayout(const ParamTable& table, bool sharded, std::optional<int> slot) : sharded_(sharded) {
  for_each_range(table, sharded ? std::optional(table.shard()) : std::nullopt, slot, [&](const IndexRange& s) {
    if (!runs_.empty() && runs_.back().flat.first + runs_.back().flat.count == s.first)
      runs_.back().flat.count += s.count;
    else
      runs_.push_back({s, elements_});
    elements_ += s.count;
  });
  capacity_ = elements_;
  if (!sharded || !slot || !table.slots_differ()) return;
  for (int shard = 0; shard < table.shards(); ++shard) {
    int64_t elements = 0;
    for_each_range(table, shard, slot, [&](const IndexRange& s) { elements += s.count; });
    capacity_ = std::max(capacity_, elements);
  }
}

int64_t FlatLayout::before(int64_t flat) const {
  auto run = std::ranges::upper_bound(runs_, flat, {}, [](const Run& r) { return r.flat.first; });
  if (run == runs_.begin()) return 0;
  --run;
  return run->offset + std::min(flat - run->flat.first, run->flat.count);
}

IndexRange FlatLayout::within(const IndexRange& flat) const {
  const int64_t begin = before(flat.first);
  return {begin, before(flat.first + flat.count) - begin};
}

IndexRange FlatLayout::at(const IndexRange& flat) const {
  const IndexRange here = within(flat);
  if (here.count != flat.count)
    throw InternalError(fmt::format("elements [{}, +{}) are not kept here", flat.first, flat.count));
  return here;
}

std::vector<IndexRange> FlatLayout::ranges(const ParamUnit& u) const {
  std::vector<IndexRange> list;
  for (const Run& r : runs_) {
    const int64_t begin = std::max(r.flat.first, u.offset);
    const int64_t end = std::min(r.flat.first + r.flat.count, u.offset + u.elements);
    if (begin < end) list.push_back({begin, end - begin});
  }
  return list;
}

}  // namespace fp
