// Helpers shared by attention forward and backward: packing, and the dropout factors of a tile.
//
// Tiles are transposed: rows are keys (or head columns), lanes are queries. Row statistics are then plain vectors, the
// causal mask is a comparison of lanes, the four keys of a Philox block are four rows, and no sum crosses lanes.
#pragma once

#include "ops/cpu/kernels/attention_mask.h"
#include "ops/cpu/kernels/dispatch.h"
#include "ops/cpu/kernels/math.h"
#include "ops/cpu/kernels/philox.h"
#include "ops/cpu/kernels/tile.h"

namespace fp::cpu::FP_ISA {

constexpr float kLog2e = 1.44269504088896341f;
constexpr double kLn2 = 0.69314718055994530942;

template <class T>
FP_INLINE const T* query_row(const void* q, const AttentionArgs& a, int64_t b, int64_t i, int64_t h) {
  return static_cast<const T*>(q) + ((b * a.q_len + i) * a.heads + h) * a.head_dim;
}
template <class T>
FP_INLINE const T* key_row(const void* k, const AttentionArgs& a, int64_t b, int64_t j, int64_t kv) {
  return static_cast<const T*>(k) + ((b * a.k_len + j) * a.kv_heads + kv) * a.head_dim;
}

// Fetches a row of a head some rows ahead. Rows are short and far apart: the hardware does not fetch the next ones.
// Fetching past the last row is harmless.
template <class T>
FP_INLINE void prefetch_row(const T* row, int64_t stride, int64_t d) {
  constexpr int64_t kRowsAhead = 8;
  for (int64_t c = 0; c < d; c += 64 / static_cast<int64_t>(sizeof(T)))
    __builtin_prefetch(row + kRowsAhead * stride + c);
}

// Packs the transpose of `count` rows of a matrix with row stride `stride` into dst[words(d)][ld]; lanes from `count`
// on are 0. `rows` is scratch for ld * words(d) words.
template <class Unit, class T>
FP_INLINE void pack_transposed(Word* dst, int64_t ld, Word* rows, const T* src, int64_t stride, int64_t count,
                               int64_t d) {
  const int64_t w = words<Unit>(d);
  for (int64_t i = 0; i < count; ++i) {
    prefetch_row(src + i * stride, stride, d);
    pack_row<Unit>(rows + i * w, src + i * stride, d);
  }
  if (count < ld) memset(rows + count * w, 0, static_cast<size_t>((ld - count) * w) * sizeof(Word));
  transpose(dst, ld, rows, w, ld, w);
}

// Packs `count` rows with words across the rows into dst[words(count)][ld]; columns from d on are 0.
template <class Unit, class T>
FP_INLINE void pack_rows_across(Word* dst, int64_t ld, const T* src, int64_t stride, int64_t count, int64_t d) {
  for (int64_t i = 0; i < count; i += Unit::kPerWord) {
    Word* row = dst + i / Unit::kPerWord * ld;
    for (int64_t r = i; r < i + Unit::kPerWord; ++r) prefetch_row(src + r * stride, stride, d);
    pack_across<Unit>(row, src + i * stride, i + 1 < count ? src + (i + 1) * stride : nullptr, d);
    for (int64_t c = d; c < ld; ++c) row[c] = 0;
  }
}

// Writes the dropout factors [count][kQueries] of the keys at positions n ... n + count - 1.
[[maybe_unused]] static void dropout_tile(float* dst, const AttentionArgs& a, const QueryBlock& q, int64_t b, int64_t h,
                                          int64_t n, int64_t count) {
  const auto low = static_cast<uint32_t>(a.sample_ids[2 * b]), high = static_cast<uint32_t>(a.sample_ids[2 * b + 1]);
  for (int64_t group = n / 4; group <= (n + count - 1) / 4; ++group)
    for (int v = 0; v < kVectors; ++v) {
      Vu token;
      memcpy(&token, q.position + v * kLanes, sizeof token);
      const Words words = philox(splat_bits(static_cast<uint32_t>(group)), token, splat_bits(low), splat_bits(high),
                                 a.dropout_keys[2 * h], a.dropout_keys[2 * h + 1]);
      for (int i = 0; i < 4; ++i) {
        const int64_t j = 4 * group + i - n;
        if (j >= 0 && j < count)
          store(dst + j * kQueries + v * kLanes, dropout_factors(words.w[i], a.dropout.p, a.dropout.kept));
      }
    }
}

}  // namespace fp::cpu::FP_ISA
