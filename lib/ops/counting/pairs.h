// How many (query, key) pairs an attention call computes: closed forms, cheap at a million tokens.
#pragma once

#include <cstdint>

#include "ops/ops.h"

namespace fp {

// Half-open range of positions.
struct Range {
  int64_t begin = 0, end = 0;
};

// Pairs (p in queries, n in keys) with n <= p and, when window > 0, n > p - window.
int64_t causal_pairs(Range queries, Range keys, int64_t window);

// Visible pairs of one sample, summed over `heads` heads. What documents hide is unknown here and counted as seen.
int64_t visible_pairs(const AttentionSpec& spec, int64_t heads, int64_t queries, int64_t keys);

}  // namespace fp
