// Splits grouped items, and attention heads with grouped-query attention, over ranks (base/even_split.h). Pure
// arithmetic.
#pragma once

#include <vector>

#include "base/even_split.h"

namespace fp {

// Returns the items of rank `index`, of n items in `groups` equal groups. With at least as many groups as ranks, whole
// groups are split over the ranks. With fewer, the ranks are split over the groups and each group over its ranks; if
// also n == groups, all ranks of a group get its one item.
IndexRange split_groups(int64_t n, int64_t groups, int ranks, int index);

// Returns the ranks that share a group with `index`, ascending; only `index` when there are at least as many groups as
// ranks.
std::vector<int> ranks_of_group(int64_t groups, int ranks, int index);

// Query and key-value heads of rank `index` of `ranks`. The key-value head of each query head is on the same rank.
struct HeadRanges {
  IndexRange heads, kv_heads;
};
HeadRanges split_heads(int64_t heads, int64_t kv_heads, int ranks, int index);

}  // namespace fp
