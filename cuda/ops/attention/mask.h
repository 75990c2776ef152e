// The attention mask for kernels: attends() of ops.h, and documents. Positions are those in the sequence, offsets
// included. A query at p sees the key at n when
//   start <= n <= p < upper
// where start is the later of the first positions of the query's document and window, and upper the end of the
// blocksparse neighbourhood of n. The same inequalities over ranges of queries and keys tell whether all pairs are
// visible, or none: such tiles need no test of single pairs, or no work at all.
#pragma once

#include <cstdint>

#include "cuda/device/platform.h"

namespace fp::cuda {

// Earliest and latest document start of kStartsPerBlock queries.
struct Starts {
  int32_t earliest, latest;
};
constexpr int kStartsPerBlock = 16;

// Mask parameters of a call, passed to kernels by value.
struct Mask {
  int queries = 0, keys = 0, q_offset = 0, k_offset = 0;
  int window = 0;                               // 0: none
  int block = 0, local_blocks = 0, stride = 1;  // block = 0: dense
  int64_t first_head = 0, head_step = 0;        // for the vertical blocks
  const int32_t* doc_start = nullptr;           // [B, queries], or null
  const Starts* starts = nullptr;               // [B, stretches()], or null when doc_start is
  int stretches() const { return (queries + kStartsPerBlock - 1) / kStartsPerBlock; }
};

enum class Visibility { none, some, all };

struct Query {
  int position, start;
};
struct Key {
  int position, upper;
};
__device__ __forceinline__ bool sees(const Query& q, const Key& k) {
  return q.start <= k.position && k.position <= q.position && q.position < k.upper;
}
__device__ __forceinline__ bool sees(const Key& k, const Query& q) { return sees(q, k); }

// Bounds of a range of consecutive queries. Empty when last < first.
struct Queries {
  int first, last;                   // positions
  int earliest_start, latest_start;  // bounds: no start is earlier or later
};

// The mask of one head of one sample. Queries and keys are given by their index in the call.
class HeadMask {
 public:
  __device__ __forceinline__ HeadMask(const Mask& m, int sample, int head)
      : m_(m),
        doc_start_(m.doc_start == nullptr ? nullptr : m.doc_start + int64_t{sample} * m.queries),
        starts_(m.starts == nullptr
                    ? nullptr
                    : m.starts + int64_t{sample} * ((m.queries + kStartsPerBlock - 1) / kStartsPerBlock)) {
    if (m.block > 0) shift_ = static_cast<int>(((m.first_head + head) * m.head_step + 1) % m.stride);
  }

  // A query beyond the last counts as the last.
  __device__ __forceinline__ Query query(int i) const {
    i = i < m_.queries ? i : m_.queries - 1;
    const int p = m_.q_offset + i, s = window_start(p);
    return {p, doc_start_ == nullptr || doc_start_[i] < s ? s : doc_start_[i]};
  }
  // No query attends to a key beyond the last.
  __device__ __forceinline__ Key key(int j) const {
    const int n = m_.k_offset + j;
    return {n, j < m_.keys ? upper(n) : 0};
  }

  // Returns the bounds of queries [first, first + count), clipped to those that exist.
  __device__ __forceinline__ Queries queries(int first, int count) const {
    const int last = (first + count < m_.queries ? first + count : m_.queries) - 1;
    Queries q{m_.q_offset + first, m_.q_offset + last, window_start(m_.q_offset + first),
              window_start(m_.q_offset + last)};
    if (doc_start_ == nullptr || last < first) return q;
    Starts all = starts_[first / kStartsPerBlock];
    for (int s = first / kStartsPerBlock + 1; s <= last / kStartsPerBlock; ++s) {
      if (starts_[s].earliest < all.earliest) all.earliest = starts_[s].earliest;
      if (starts_[s].latest > all.latest) all.latest = starts_[s].latest;
    }
    if (all.earliest > q.earliest_start) q.earliest_start = all.earliest;
    if (all.latest > q.latest_start) q.latest_start = all.latest;
    return q;
  }

  // Returns whether these queries see none, some or all of the keys [first, first + count). A range that reaches beyond
  // the last key is never `all`.
  __device__ __forceinline__ Visibility visibility(const Queries& q, int first, int count) const {
    const int end = first + count < m_.keys ? first + count : m_.keys;
    const int n0 = m_.k_offset + first, n1 = m_.k_offset + end - 1;
    if (q.last < q.first || n1 < n0 || n0 > q.last || n1 < q.earliest_start) return Visibility::none;
    bool all = n1 <= q.first && n0 >= q.latest_start && end == first + count;
    if (m_.block > 0) {
      bool any = false;
      for (int n = n0; n <= n1; n = (n / m_.block + 1) * m_.block) {
        const int end_of_sight = upper(n);
        any = any || end_of_sight > q.first;
        all = all && end_of_sight > q.last;
      }
      if (!any) return Visibility::none;
    }
    return all ? Visibility::all : Visibility::some;
  }

  // Bounds of the indices of all keys that one of these queries sees, and of all queries that see one of these keys.
  __device__ __forceinline__ int first_key(const Queries& q) const {
    return q.earliest_start > m_.k_offset ? q.earliest_start - m_.k_offset : 0;
  }
  __device__ __forceinline__ int end_key(const Queries& q) const {
    const int end = q.last + 1 - m_.k_offset;
    return end < m_.keys ? end : m_.keys;
  }
  __device__ __forceinline__ int first_query(int key) const {
    const int i = m_.k_offset + key - m_.q_offset;
    return i > 0 ? i : 0;
  }
  __device__ __forceinline__ int end_query(int last_key) const {
    const int end = m_.k_offset + last_key + m_.window - m_.q_offset;
    return m_.window > 0 && end < m_.queries ? end : m_.queries;
  }

 private:
  __device__ __forceinline__ int window_start(int p) const {
    return m_.window > 0 && p >= m_.window ? p - m_.window + 1 : 0;
  }
  __device__ __forceinline__ int upper(int n) const {
    if (m_.block == 0) return INT32_MAX;
    const int kb = n / m_.block;
    return (kb + shift_) % m_.stride == 0 ? INT32_MAX : (kb + m_.local_blocks) * m_.block;
  }

  const Mask& m_;
  const int32_t* doc_start_;
  const Starts* starts_;
  int shift_ = 0;
};

}  // namespace fp::cuda
