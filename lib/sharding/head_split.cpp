#include "sharding/head_split.h"

namespace fp {
namespace {

// The one of `groups` that a rank belongs to.
struct GroupOfRank {
  int64_t group;
  IndexRange ranks;  // of that group
};
GroupOfRank group_of_rank(int64_t groups, int ranks, int index) {
  for (int64_t g = 0;; ++g) {
    const IndexRange s = split_evenly(ranks, static_cast<int>(groups), static_cast<int>(g));
    if (index < s.first + s.count) return {g, s};
  }
}

}  // namespace

IndexRange split_groups(int64_t n, int64_t groups, int ranks, int index) {
  const int64_t each = n / groups;
  if (groups >= ranks) {
    const IndexRange s = split_evenly(groups, ranks, index);
    return {s.first * each, s.count * each};
  }
  const GroupOfRank p = group_of_rank(groups, ranks, index);
  if (each == 1) return {p.group, 1};
  const IndexRange s = split_evenly(each, static_cast<int>(p.ranks.count), index - static_cast<int>(p.ranks.first));
  return {p.group * each + s.first, s.count};
}

std::vector<int> ranks_of_group(int64_t groups, int ranks, int index) {
  if (groups >= ranks) return {index};
  const IndexRange s = group_of_rank(groups, ranks, index).ranks;
  std::vector<int> members;
  for (int64_t r = s.first; r < s.first + s.count; ++r) members.push_back(static_cast<int>(r));
  return members;
}

HeadRanges split_heads(int64_t heads, int64_t kv_heads, int ranks, int index) {
  return {split_groups(heads, kv_heads, ranks, index), split_groups(kv_heads, kv_heads, ranks, index)};
}

}  // namespace fp
