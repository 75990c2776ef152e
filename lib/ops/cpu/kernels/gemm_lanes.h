// The product kernel on vectors. A tile of c, kRows rows of kPanel vectors, stays in registers over the depth of a
// block.
#pragma once

#include "ops/cpu/kernels/gemm_destination.h"
#include "ops/cpu/kernels/gemm_operands.h"

namespace fp::cpu::FP_ISA {

template <class OperandUnit>
struct LaneKernel {
  using Unit = OperandUnit;
  struct Session {
    Session() {}  // not trivial: a session is not an unused variable
  };

  static constexpr int kPanel = 3;                    // vectors of a panel
  static constexpr int kRows = kLanes == 16 ? 8 : 4;  // rows of a tile
  static constexpr int64_t kColumns = kPanel * kLanes;
  static constexpr int64_t kDepth = 1024;     // words of k at a time, at most
  static constexpr int64_t kDepthGrain = 1;   // words of k are padded with 0 to a multiple
  static constexpr bool kReadsStored = true;  // whether multiply() takes rows of a that are not packed
  using RowPanels = LanePanels<kLanes>;
  using ColumnPanels = LanePanels<kColumns>;

  // Returns the rows of the operand that all threads share that are packed at a time, at most.
  static int64_t shared_rows(int64_t) { return kLanes == 8 ? 1024 : 2048; }

  // Adds the products of rows of a and of a panel of b to d.
  static void multiply(const Rows& a, const Word* b, int64_t depth, const Destination& d, const PanelRows& p) {
    a.ld == 0 ? multiply_rows<false>(a, b, depth, d, p) : multiply_rows<true>(a, b, depth, d, p);
  }

 private:
  template <bool kStored>
  static void multiply_rows(const Rows& a, const Word* b, int64_t depth, const Destination& d, const PanelRows& p) {
    for (int64_t r = p.begin; r < p.needed; r += kRows) {
      const int64_t row = r - p.begin;
      const Word* const tile = a.data + (kStored ? row * a.ld : row / kLanes * kLanes * depth + row % kLanes);
      // The first tiles of a panel bring the next one, a line of memory for each word of k; the others, with few lanes,
      // their rows. Fetching past the end of a buffer is harmless.
      const int64_t line = row / kRows * kLineWords;
      const Word* const ahead = p.next_b != nullptr && line < kColumns ? p.next_b + line * depth : tile;
      multiply_tile<kStored>({tile, a.ld}, b, ahead, depth, d, r, p.column, p.end - r, p.columns);
    }
  }

  static constexpr int64_t kAhead = 32;      // words of k that a tile fetches of a ahead
  static constexpr int64_t kLineWords = 16;  // of a line of memory

  // Fetches a line from `ahead` on for each word of k.
  template <bool kStored>
  FP_INLINE void tile_sums(Vf (&c)[kRows][kPanel], const Rows& rows, const Word* b, const Word* ahead, int64_t depth) {
    const Word* const a = rows.data;
    const int64_t row_step = kStored ? rows.ld : 1, word_step = kStored ? 1 : kLanes;
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < kPanel; ++v) c[i][v] = Vf{};
#pragma GCC unroll kUnroll
    for (int64_t k = 0; k < depth; ++k) {
      Vu bv[kPanel];
      if constexpr (kLanes == kLineWords && !kStored) __builtin_prefetch(a + (k + kAhead) * kLanes);
      __builtin_prefetch(ahead + k * kLineWords);
#pragma GCC unroll 4
      for (int v = 0; v < kPanel; ++v) bv[v] = load_words(b + k * kColumns + v * kLanes);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < kPanel; ++v) c[i][v] = Unit::mac(c[i][v], a + k * word_step + i * row_step, bv[v]);
    }
  }

  // Fetches a tile of the destination into the cache, so that it is there when the sums are complete.
  FP_INLINE void prefetch_tile(const Destination& d, int64_t row, int64_t column) {
    if (d.rounded == nullptr || d.add)
      for (int i = 0; i < kRows; ++i)
        for (int64_t at = 0; at < kColumns; at += 16)
          __builtin_prefetch(d.sums + (row + i) * d.ld_sums + column + at, 1);
    if (d.rounded != nullptr)
      for (int i = 0; i < kRows; ++i)
        for (int64_t at = 0; at < kColumns; at += 32) __builtin_prefetch(d.rounded + (row + i) * d.ld + column + at, 1);
  }

  template <class Lanes>
  FP_INLINE void finish(const Destination& d, int64_t row, int64_t column, Vf x, Lanes part) {
    if (d.bias != nullptr) x += load(d.bias + column, part);
    float* sums = d.sums == nullptr ? nullptr : d.sums + row * d.ld_sums + column;
    if (d.add) x += load(sums, part);
    if (d.rounded != nullptr)
      store(d.rounded + row * d.ld + column, x, part);
    else
      store(sums, x, part);
  }

  template <bool kStored>
  static void multiply_tile(const Rows& a, const Word* b, const Word* ahead, int64_t depth, const Destination& d,
                            int64_t row, int64_t column, int64_t rows, int64_t cols) {
    const bool whole = rows >= kRows && cols >= kColumns;
    if (whole) prefetch_tile(d, row, column);
    Vf c[kRows][kPanel];
    tile_sums<kStored>(c, a, b, ahead, depth);
    if (whole) {
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < kPanel; ++v) finish(d, row + i, column + v * kLanes, c[i][v], Full{});
      return;
    }
    Vf sums[kRows][kPanel];  // in memory, so that `c`, whose indexes are all constants, stays in registers
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < kPanel; ++v) sums[i][v] = c[i][v];
    for (int i = 0; i < smaller(kRows, rows); ++i)
      for (int v = 0; v * kLanes < smaller(kColumns, cols); ++v) {
        if (cols - v * kLanes >= kLanes)
          finish(d, row + i, column + v * kLanes, sums[i][v], Full{});
        else
          finish(d, row + i, column + v * kLanes, sums[i][v], Part{static_cast<int>(cols - v * kLanes)});
      }
  }
};

}  // namespace fp::cpu::FP_ISA
