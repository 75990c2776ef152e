// The attention mask for blocks of queries and keys. A query at position p sees a key at position n when
//   n <= p < upper(n)  and  n >= start(p),
// where start(p) is the later of the starts of its document and of its window, and upper(n) the end of the blocksparse
// neighbourhood of n.
#pragma once

#include "ops/cpu/kernels.h"
#include "ops/cpu/kernels/simd.h"

namespace fp::cpu::FP_ISA {

constexpr int64_t kQueries = 64;  // queries in a block: the lanes of a tile
constexpr int64_t kKeys = 64;     // keys in a block: the rows of a tile
constexpr int kVectors = kQueries / kLanes;

enum class Visibility { none, some, all };

struct QueryBlock {
  int64_t first, count;        // queries [first, first + count)
  int32_t position[kQueries];  // lanes beyond the last query repeat it
  int32_t start[kQueries];
  int64_t p_min, p_max, start_min, start_max;

  QueryBlock(const AttentionArgs& a, int64_t b, int64_t first_)
      : first(first_), count(smaller(kQueries, a.q_len - first_)) {
    p_min = a.q_offset + first;
    p_max = p_min + count - 1;
    start_min = INT32_MAX;
    start_max = 0;
    for (int64_t i = 0; i < kQueries; ++i) {
      const int64_t p = smaller(p_min + i, p_max);
      int64_t s = a.doc_start == nullptr ? 0 : a.doc_start[b * a.q_len + p - a.q_offset];
      if (a.window > 0) s = larger(s, p - a.window + 1);
      s = larger(s, 0);
      position[i] = static_cast<int32_t>(p);
      start[i] = static_cast<int32_t>(s);
      start_min = smaller(start_min, s);
      start_max = larger(start_max, s);
    }
  }
};

FP_INLINE int64_t upper_bound(const AttentionArgs& a, int64_t head, int64_t n) {
  if (a.block == 0) return INT32_MAX;
  const int64_t kb = n / a.block;
  if ((kb + (a.first_head + head) * a.head_step + 1) % a.vertical_stride == 0) return INT32_MAX;
  return smaller(INT32_MAX, (kb + a.local_blocks) * a.block);
}

// Returns whether none, some or all pairs of these queries and the keys [first, first + count) are visible.
FP_INLINE Visibility visibility(const AttentionArgs& a, const QueryBlock& q, int64_t head, int64_t first,
                                int64_t count) {
  const int64_t n0 = a.k_offset + first, n1 = n0 + count - 1;
  if (n0 > q.p_max || n1 < q.start_min) return Visibility::none;
  int64_t lowest = INT32_MAX, highest = 0;
  for (int64_t n = n0; n <= n1; n = a.block == 0 ? n1 + 1 : (n / a.block + 1) * a.block) {
    const int64_t u = upper_bound(a, head, n);
    lowest = smaller(lowest, u);
    highest = larger(highest, u);
  }
  if (highest <= q.p_min) return Visibility::none;
  return n1 <= q.p_min && n0 >= q.start_max && lowest > q.p_max ? Visibility::all : Visibility::some;
}

// Returns the mask of the lanes of vector v that see the key at position n.
FP_INLINE Vi sees(const QueryBlock& q, int v, int64_t n, int64_t upper) {
  Vi p, s;
  memcpy(&p, q.position + v * kLanes, sizeof p);
  memcpy(&s, q.start + v * kLanes, sizeof s);
  const int32_t key = static_cast<int32_t>(n), end = static_cast<int32_t>(upper);
  return (p >= key) & (p < end) & (s <= key);
}

}  // namespace fp::cpu::FP_ISA
