#include "ops/calls/pairs.h"

#include <algorithm>
#include <vector>

namespace fp {
namespace {

// Sum, over the queries p, of the number of keys n <= p - shift.
int64_t keys_below(IndexRange queries, IndexRange keys, int64_t shift) {
  const int64_t length = keys.count;
  // Sum of clamp(t, 0, length) over all t <= last.
  const auto ramp = [length](int64_t last) {
    if (last <= 0) return int64_t{0};
    const int64_t rising = std::min(last, length);
    return rising * (rising + 1) / 2 + (last - rising) * length;
  };
  return ramp(queries.end() - keys.first - shift) - ramp(queries.first - keys.first - shift);
}

// The part of a range from `first` on.
IndexRange from(const IndexRange& r, int64_t first) { return common(r, {first, r.end() - first}); }

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// Pairs in the local band: key block within local_blocks of the query block.
int64_t local_pairs(const AttentionSpec& s, IndexRange queries, IndexRange keys) {
  int64_t pairs = 0;
  for (int64_t block = queries.first / s.block; block * s.block < queries.end(); ++block) {
    const IndexRange rows = common(queries, {block * s.block, s.block});
    pairs += causal_pairs(rows, from(keys, (block - s.local_blocks + 1) * s.block), s.window);
  }
  return pairs;
}

// Pairs below the band whose key block has the remainder `wanted` modulo the vertical stride.
int64_t vertical_pairs(const AttentionSpec& s, IndexRange queries, IndexRange keys, int64_t wanted) {
  int64_t pairs = 0;
  const int64_t first = keys.first / s.block;
  for (int64_t block = first + (wanted - first % s.vertical_stride + s.vertical_stride) % s.vertical_stride;
       block * s.block < keys.end(); block += s.vertical_stride) {
    const IndexRange columns = common(keys, {block * s.block, s.block});
    pairs += causal_pairs(from(queries, (block + s.local_blocks) * s.block), columns, s.window);
  }
  return pairs;
}

}  // namespace

int64_t causal_pairs(IndexRange queries, IndexRange keys, int64_t window) {
  if (queries.count <= 0 || keys.count <= 0) return 0;
  return keys_below(queries, keys, 0) - (window > 0 ? keys_below(queries, keys, window) : 0);
}

int64_t visible_pairs(const AttentionSpec& s, int64_t heads, int64_t queries, int64_t keys) {
  const IndexRange q{s.q_offset, queries}, k{s.k_offset, keys};
  if (s.block == 0) return heads * causal_pairs(q, k, s.window);
  int64_t pairs = heads * local_pairs(s, q, k);
  std::vector<int64_t> by_remainder(static_cast<size_t>(s.vertical_stride), -1);
  for (int64_t head = 0; head < heads; ++head) {
    const int64_t shift = (s.first_head + head) * s.head_step + 1;
    const int64_t wanted = -shift - floor_div(-shift, s.vertical_stride) * s.vertical_stride;
    int64_t& known = by_remainder[static_cast<size_t>(wanted)];
    if (known < 0) known = vertical_pairs(s, q, k, wanted);
    pairs += known;
  }
  return pairs;
}

}  // namespace fp
