// Number of (query, key) pairs that an attention call computes, in closed form: cheap at a million tokens.
#pragma once

#include <cstdint>

#include "base/index_range.h"
#include "ops/calls/attention.h"

namespace fp {

// Returns the number of pairs (p in queries, n in keys) with n <= p and, when window > 0, n > p - window.
int64_t causal_pairs(IndexRange queries, IndexRange keys, int64_t window);

// Returns the number of visible pairs of one sample, summed over `heads` heads. Documents are unknown here: pairs that
// they would hide are counted as visible.
int64_t visible_pairs(const AttentionSpec& spec, int64_t heads, int64_t queries, int64_t keys);

}  // namespace fp
