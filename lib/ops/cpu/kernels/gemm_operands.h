// The operands of matrix products, packed for a product kernel (gemm_lanes.h, gemm_tiles.h).
#pragma once

#include "ops/cpu/kernels/dispatch.h"
#include "ops/cpu/kernels/units.h"

namespace fp::cpu::FP_ISA {

constexpr int64_t kWordPart = 32;   // words of k of a transposed operand packed together
constexpr int64_t kGathered = 256;  // words of a row gathered before they are transposed
constexpr int64_t kStripe = 4;      // words of k packed together, while the next ones are fetched

// An operand with elements (row, k), where row is the free and k the summed index.
template <class T>
struct Operand {
  const T* data;
  bool transposed;  // stored [k][rows]
  int64_t rows, depth;
};

// Rows of an operand: packed in panels, or, with ld > 0, as they are stored, ld words apart.
struct Rows {
  const Word* data;
  int64_t ld;
};

// Part of the words of k of a block: [begin, end) of `depth`, which start at element `k` of the operands. Words beyond
// the operands' last are packed as 0.
struct DepthPart {
  int64_t k, depth, begin, end;
};

// Packs words [0, count) of rows [row, row + width), transposed, into dst[word * ld + i]. Rows beyond the last are 0.
template <class Unit, class T>
void pack_rows_of(Word* dst, int64_t ld, const Operand<T>& o, int64_t row, int64_t width, int64_t k, int64_t count) {
  constexpr bool kStoredAsWords = sizeof(T) * Unit::kPerWord == sizeof(Word);
  Word gathered[kLanes * kGathered];
  for (int64_t i = 0; i < width; i += kLanes) {
    const int64_t live = larger(0, smaller(kLanes, o.rows - row - i));
    const T* src = o.data + (row + i) * o.depth + k;
    if (kStoredAsWords && live == kLanes && o.depth % Unit::kPerWord == 0) {
      transpose(dst + i, ld, reinterpret_cast<const Word*>(src), o.depth / Unit::kPerWord, kLanes, count);
      continue;
    }
    for (int64_t w = 0; w < count; w += kGathered) {
      const int64_t first = w * Unit::kPerWord, n = smaller(kGathered, count - w);
      for (int64_t r = 0; r < kLanes; ++r) {
        if (r < live)
          pack_row<Unit>(gathered + r * kGathered, src + r * o.depth + first,
                         smaller(n * Unit::kPerWord, o.depth - k - first));
        else
          memset(gathered + r * kGathered, 0, static_cast<size_t>(n) * sizeof(Word));
      }
      transpose(dst + w * ld + i, ld, gathered, kGathered, kLanes, n);
    }
  }
}

// Fetches `elements` elements of each row of k of the word that is `ahead` words after src's. Each row is elsewhere in
// memory and short: the hardware does not fetch the next ones by itself.
template <class Unit, class T>
FP_INLINE void prefetch_across(const Operand<T>& o, const T* src, int64_t elements, int64_t ahead) {
  for (int i = 0; i < Unit::kPerWord; ++i)
    for (int64_t line = 0; line < elements; line += 64 / static_cast<int64_t>(sizeof(T)))
      __builtin_prefetch(src + (ahead * Unit::kPerWord + i) * o.rows + line);
}

// Packs `width` rows of a transposed operand from `row` on, at the word that starts at element k of `depth`.
template <class Unit, class T>
FP_INLINE void pack_word_across(Word* dst, const Operand<T>& o, int64_t row, int64_t width, int64_t k) {
  const int64_t live = k < o.depth ? o.rows - row : 0;
  const T* src = o.data + k * o.rows + row;
  const T* second = k + 1 < o.depth ? src + o.rows : nullptr;
  if (live >= width && second != nullptr) return pack_across<Unit>(dst, src, second, width);
  for (int64_t i = 0; i < width; ++i) dst[i] = 0;
  if (live > 0) pack_across<Unit>(dst, src, second, smaller(live, width));
}

// Panels of kWidth rows, each [word][kWidth].
template <int kRows>
struct LanePanels {
  static constexpr int kWidth = kRows;

  // Packs `panels` panels from `row` on. Of an operand that is not transposed `at` must be the whole depth.
  template <class Unit, class T>
  static void pack(Word* dst, const Operand<T>& o, int64_t row, int64_t panels, const DepthPart& at) {
    if (o.transposed) return pack_columns<Unit>(dst, o, row, panels, at);
    const int64_t count = smaller(at.depth, words<Unit>(o.depth - at.k));
    for (int64_t p = 0; p < panels; ++p) {
      Word* const panel = dst + p * at.depth * kWidth;
      pack_rows_of<Unit>(panel, kWidth, o, row + p * kWidth, kWidth, at.k, count);
      memset(panel + count * kWidth, 0, static_cast<size_t>((at.depth - count) * kWidth) * sizeof(Word));
    }
  }

 private:
  template <class Unit, class T>
  static void pack_columns(Word* dst, const Operand<T>& o, int64_t row, int64_t panels, const DepthPart& at) {
    // Panels may be a multiple of the first-level cache's period apart: what is written to each must fill whole lines.
    for (int64_t first = at.begin; first < at.end; first += kStripe) {
      const int64_t last = smaller(first + kStripe, at.end);
      for (int64_t w = first; w < last; ++w)
        prefetch_across<Unit>(o, o.data + (at.k + w * Unit::kPerWord) * o.rows + row, panels * kWidth, kStripe);
      for (int64_t p = 0; p < panels; ++p)
        for (int64_t w = first; w < last; ++w)
          pack_word_across<Unit>(dst + (p * at.depth + w) * kWidth, o, row + p * kWidth, kWidth,
                                 at.k + w * Unit::kPerWord);
    }
  }
};

// Packs the same panels on all threads, each of which reads what is contiguous in memory.
template <class Unit, class Panels, class T>
void pack_shared(Word* dst, const Operand<T>& o, int64_t row, int64_t panels, int64_t k, int64_t depth) {
  if (o.transposed)
    return parallel_each(blocks_of(depth, kWordPart), [&](int64_t i, int) {
      Panels::template pack<Unit>(dst, o, row, panels, {k, depth, i * kWordPart, smaller((i + 1) * kWordPart, depth)});
    });
  parallel_each(panels, [&](int64_t p, int) {
    Panels::template pack<Unit>(dst + p * depth * Panels::kWidth, o, row + p * Panels::kWidth, 1, {k, depth, 0, depth});
  });
}

}  // namespace fp::cpu::FP_ISA
