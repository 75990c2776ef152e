#include "ops/calls/pairs.h"

#include <algorithm>
#include <vector>

namespace fp {
namespace {

// Sum, over the queries p, of the number of keys n <= p - shift.
int64_t keys_below(Range queries, Range keys, int64_t shift) {
  const int64_t length = keys.end - keys.begin;
  // Sum of clamp(t, 0, length) over all t <= last.
  const auto ramp = [length](int64_t last) {
    if (last <= 0) return int64_t{0};
    const int64_t rising = std::min(last, length);
    return rising * (rising + 1) / 2 + (last - rising) * length;
  };
  return ramp(queries.end - keys.begin - shift) - ramp(queries.begin - keys.begin - shift);
}

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// Pairs in the local band: key block within local_blocks of the query block.
int64_t local_pairs(const AttentionSpec& s, Range queries, Range keys) {
  int64_t pairs = 0;
  for (int64_t block = queries.begin / s.block; block * s.block < queries.end; ++block) {
    const Range rows{std::max(queries.begin, block * s.block), std::min(queries.end, (block + 1) * s.block)};
    pairs += causal_pairs(rows, {std::max(keys.begin, (block - s.local_blocks + 1) * s.block), keys.end}, s.window);
  }
  return pairs;
}

// Pairs below the band whose key block has the remainder `wanted` modulo the vertical stride.
int64_t vertical_pairs(const AttentionSpec& s, Range queries, Range keys, int64_t wanted) {
  int64_t pairs = 0;
  const int64_t first = keys.begin / s.block;
  for (int64_t block = first + (wanted - first % s.vertical_stride + s.vertical_stride) % s.vertical_stride;
       block * s.block < keys.end; block += s.vertical_stride) {
    const Range columns{std::max(keys.begin, block * s.block), std::min(keys.end, (block + 1) * s.block)};
    pairs +=
        causal_pairs({std::max(queries.begin, (block + s.local_blocks) * s.block), queries.end}, columns, s.window);
  }
  return pairs;
}

}  // namespace

int64_t causal_pairs(Range queries, Range keys, int64_t window) {
  if (queries.begin >= queries.end || keys.begin >= keys.end) return 0;
  return keys_below(queries, keys, 0) - (window > 0 ? keys_below(queries, keys, window) : 0);
}

int64_t visible_pairs(const AttentionSpec& s, int64_t heads, int64_t queries, int64_t keys) {
  const Range q{s.q_offset, s.q_offset + queries}, k{s.k_offset, s.k_offset + keys};
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
