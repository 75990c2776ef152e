#include "plan/deal.h"

namespace fp {
namespace {

// Which of `groups` a rank is dealt to.
struct GroupOfRank {
  int64_t group;
  Share ranks;  // of that group
};
GroupOfRank group_of_rank(int64_t groups, int ranks, int index) {
  for (int64_t g = 0;; ++g) {
    const Share s = deal(ranks, static_cast<int>(groups), static_cast<int>(g));
    if (index < s.first + s.count) return {g, s};
  }
}

}  // namespace

Share deal_groups(int64_t n, int64_t groups, int ranks, int index) {
  const int64_t each = n / groups;
  if (groups >= ranks) {
    const Share s = deal(groups, ranks, index);
    return {s.first * each, s.count * each};
  }
  const GroupOfRank p = group_of_rank(groups, ranks, index);
  if (each == 1) return {p.group, 1};
  const Share s = deal(each, static_cast<int>(p.ranks.count), index - static_cast<int>(p.ranks.first));
  return {p.group * each + s.first, s.count};
}

std::vector<int> group_sharers(int64_t groups, int ranks, int index) {
  if (groups >= ranks) return {index};
  const Share s = group_of_rank(groups, ranks, index).ranks;
  std::vector<int> sharers;
  for (int64_t r = s.first; r < s.first + s.count; ++r) sharers.push_back(static_cast<int>(r));
  return sharers;
}

HeadShare deal_heads(int64_t heads, int64_t kv_heads, int ranks, int index) {
  return {deal_groups(heads, kv_heads, ranks, index), deal_groups(kv_heads, kv_heads, ranks, index)};
}

}  // namespace fp
