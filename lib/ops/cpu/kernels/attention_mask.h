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
constexpr int kStep = 2;                        // vectors of a block that are left out together
constexpr int64_t kStepLanes = kStep * kLanes;  // lanes, and keys, of a step

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

// Returns how many of `count` keys from position n on the lanes of the step of vector v can see: none beyond its last
// query.
FP_INLINE int64_t keys_of_step(const QueryBlock& q, int v, int64_t n, int64_t count) {
  const int64_t last = q.position[(v / kStep + 1) * kStepLanes - 1];
  return larger(0, smaller(count, last + 1 - n));
}

// Calls body(first vector, vectors, keys) for groups of the vectors of a block, with how many of `count` keys from
// position n on they can see. On the diagonal of the matrix of scores a group is a step.
template <class Body>
FP_INLINE void for_vectors(const QueryBlock& q, int64_t n, int64_t count, Body&& body) {
  const int group = n + count - 1 <= q.p_min ? kVectors : kStep;
  for (int v = 0; v < kVectors; v += group)
    if (const int64_t keys = keys_of_step(q, v, n, count); keys > 0) body(v, group, keys);
}

// Calls body(first key, keys, first lane) for groups of `count` keys from position n on, with the first lane that can
// see one of them.
template <class Body>
FP_INLINE void for_keys(const QueryBlock& q, int64_t n, int64_t count, Body&& body) {
  const int64_t group = n + count - 1 <= q.p_min ? kKeys : kStepLanes;
  for (int64_t j = 0; j < count; j += group) {
    const int64_t lane = larger(0, n + j - q.p_min) / kStepLanes * kStepLanes;
    if (lane < q.count) body(j, smaller(group, count - j), lane);
  }
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
