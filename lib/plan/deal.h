// Dealing groups of things, and heads with their groups, to ranks (base/deal.h). Pure arithmetic.
#pragma once

#include <vector>

#include "base/deal.h"

namespace fp {

// n things in `groups` equal groups. At least as many groups as ranks: whole groups are dealt. Fewer: ranks are dealt
// to the groups, and each group to its ranks; with n == groups the ranks of a group all get the same thing.
Share deal_groups(int64_t n, int64_t groups, int ranks, int index);

// The ranks that share a group with `index`, ascending; itself alone when there are as many groups as ranks or more.
std::vector<int> group_sharers(int64_t groups, int ranks, int index);

// Query and key-value heads of a rank, out of those dealt to `ranks`. A query head's key-value head is always with it.
struct HeadShare {
  Share heads, kv_heads;
};
HeadShare deal_heads(int64_t heads, int64_t kv_heads, int ranks, int index);

}  // namespace fp
