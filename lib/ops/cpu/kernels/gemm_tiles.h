// The product kernel on AMX tiles: 32 rows and 32 columns of c at a time. The words of a tile of b are in the order in
// which vectors have them too; tiles of a are 16 rows of 16 words.
//
// The kernel multiplies part of the depth of a block at a time, so little that a panel of b stays in the first-level
// cache, for kGroup rows, whose sums stay there as well. A sum still depends only on the order of k: it goes on where
// the last part left it.
#pragma once

#include "ops/cpu/kernels/gemm_destination.h"
#include "ops/cpu/kernels/gemm_operands.h"
#include "ops/cpu/kernels/tile_amx.h"

#ifdef FP_AMX_TILES

namespace fp::cpu::FP_ISA {

// Panels of 16 rows, as tiles of 16 words, each [row][word].
struct TilePanels {
  static constexpr int kWidth = 16;

  // As LanePanels::pack(); `begin` is the first word of a tile.
  template <class Unit, class T>
  static void pack(Word* dst, const Operand<T>& o, int64_t row, int64_t panels, const DepthPart& at) {
    for (int64_t w = at.begin; w < at.end; w += kWidth) {
      const int64_t k = at.k + w * Unit::kPerWord;
      if (o.transposed)
        for (int64_t i = 0; i < kWidth; ++i)
          prefetch_across<Unit>(o, o.data + (k + i * Unit::kPerWord) * o.rows + row, panels * kWidth, kWidth);
      for (int64_t p = 0; p < panels; ++p) {
        Word* const tile = dst + (p * at.depth + w) * kWidth;
        o.transposed ? pack_across_tile<Unit>(tile, o, row + p * kWidth, k)
                     : pack_along_tile<Unit>(tile, o, row + p * kWidth, k);
      }
    }
  }

 private:
  template <class Unit, class T>
  FP_INLINE void pack_along_tile(Word* tile, const Operand<T>& o, int64_t row, int64_t k) {
    const int64_t rows = smaller(kWidth, o.rows - row), count = smaller(kWidth * Unit::kPerWord, o.depth - k);
    const T* src = o.data + row * o.depth + k;
    if (rows == kWidth && count == kWidth * Unit::kPerWord) {
      for (int64_t r = 0; r < kWidth; ++r)
        memcpy(tile + r * kWidth, src + r * o.depth, static_cast<size_t>(kWidth) * sizeof(Word));
      return;
    }
    memset(tile, 0, static_cast<size_t>(kWidth * kWidth) * sizeof(Word));
    if (count > 0)
      for (int64_t r = 0; r < rows; ++r) pack_row<Unit>(tile + r * kWidth, src + r * o.depth, count);
  }

  template <class Unit, class T>
  FP_INLINE void pack_across_tile(Word* tile, const Operand<T>& o, int64_t row, int64_t k) {
    Word across[kWidth * kWidth];
    for (int64_t w = 0; w < kWidth; ++w)
      pack_word_across<Unit>(across + w * kWidth, o, row, kWidth, k + w * Unit::kPerWord);
    transpose_square(tile, kWidth, across, kWidth);
  }
};

struct TileKernel {
  using Unit = Bf16Unit;
  using Session = TileSession;

  static constexpr int64_t kColumns = 32;
  static constexpr int64_t kDepth = 768;  // words
  static constexpr int64_t kDepthGrain = 16;
  static constexpr bool kReadsStored = false;
  using RowPanels = TilePanels;
  using ColumnPanels = LanePanels<kColumns>;

  // As many as stay in a second-level cache of 2 MiB.
  static int64_t shared_rows(int64_t depth) {
    return (int64_t{3} << 19) / static_cast<int64_t>(sizeof(Word)) / larger(1, depth) / 32 * 32;
  }

  static void multiply(const Rows& a, const Word* b, int64_t depth, const Destination& d, const PanelRows& p) {
    alignas(64) float sums[kGroup * kColumns];
    const int64_t piece = round_up(blocks_of(depth, blocks_of(depth, kPiece)), kDepthGrain);
    for (int64_t group = p.begin; group < p.needed; group += kGroup)
      for (int64_t word = 0; word < depth; word += piece)
        for (int64_t row = group; row < smaller(group + kGroup, p.needed); row += 32) {
          const Word* tiles = a.data + (row - p.begin) * depth + word * 16;
          multiply_tile(tiles, b + word * kColumns, depth, {word, smaller(piece, depth - word)}, d, p, row,
                        sums + (row - group) * kColumns);
        }
  }

 private:
  static constexpr int64_t kPiece = 256;  // words of k; a panel of b then takes 32 KiB
  static constexpr int64_t kGroup = 128;  // rows

  struct Words {
    int64_t first, count;
  };

  // Multiplies a piece of the depth. `sums` are the running sums of the tile, [32][kColumns].
  static void multiply_tile(const Word* a, const Word* b, int64_t depth, const Words& k, const Destination& d,
                            const PanelRows& p, int64_t row, float* sums) {
    const int64_t rows = smaller(32, p.end - row), columns = smaller(kColumns, p.columns);
    const bool first = k.first == 0, last = k.first + k.count >= depth;
    const bool whole = rows % 16 == 0 && columns % 16 == 0;
    float* const c = d.sums == nullptr ? nullptr : d.sums + row * d.ld_sums + p.column;
    TileBlock t{.in = sums,
                .in_row = kColumns,
                .out = sums,
                .out_row = kColumns,
                .a = a,
                .b = b,
                .a_row = 16,
                .a_lower = 16 * depth,
                .b_row = kColumns,
                .a_step = 16 * 16,
                .b_step = 16 * kColumns,
                .steps = k.count / 16};
    if (first && !d.add) t.in = nullptr;
    if (first && d.add && whole) t.in = c, t.in_row = d.ld_sums;
    if (first && d.add && !whole) copy_part(sums, c, d.ld_sums, rows, columns);
    const bool direct = last && whole && d.rounded == nullptr && d.bias == nullptr;
    if (direct) t.out = c, t.out_row = d.ld_sums;
    tile_block(t, rows > 16, columns > 16);
    if (last && !direct) finish(sums, c, d, p.column, row, rows, columns);
  }

  // Copies rows and columns that exist; what lies beyond is computed, too, and stays in `sums`.
  static void copy_part(float* sums, const float* c, int64_t ld, int64_t rows, int64_t columns) {
    memset(sums, 0, static_cast<size_t>(32 * kColumns) * sizeof(float));
    for (int64_t r = 0; r < rows; ++r)
      memcpy(sums + r * kColumns, c + r * ld, static_cast<size_t>(columns) * sizeof(float));
  }

  static void finish(const float* sums, float* c, const Destination& d, int64_t column, int64_t row, int64_t rows,
                     int64_t count) {
    for (int64_t r = 0; r < rows; ++r)
      columns(count, [&](int64_t i, auto part) {
        Vf x = load(sums + r * kColumns + i, part);
        if (d.bias != nullptr) x += load(d.bias + column + i, part);
        if (d.rounded != nullptr)
          store(d.rounded + (row + r) * d.ld + column + i, x, part);
        else
          store(c + r * d.ld_sums + i, x, part);
      });
  }
};

}  // namespace fp::cpu::FP_ISA

#endif
