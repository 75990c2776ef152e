// Products of bf16 words by AMX: four tiles of sums are kept at a time. As in tile.h a sum depends only on the order of
// k.
#pragma once

#include "ops/cpu/kernels/amx.h"

#ifdef FP_AMX_TILES

namespace fp::cpu::FP_ISA {

// Tiles 0 to 3: sums of `upper` and `lower` rows, of 16 lanes each; 4 and 5: a, upper and lower rows of `words` words;
// 6 and 7: b, `words` rows of 16 lanes.
FP_INLINE void shape_tiles(int64_t upper, int64_t lower, int64_t words) {
  TileShapes s;
  const auto set = [&](int tile, int64_t rows, int64_t row_words) {
    s.rows[tile] = static_cast<uint8_t>(rows);
    s.row_bytes[tile] = static_cast<uint16_t>(rows == 0 ? 0 : row_words * 4);
  };
  set(0, upper, 16), set(1, upper, 16), set(2, lower, 16), set(3, lower, 16);
  set(4, upper, words), set(5, lower, words);
  set(6, words, 16), set(7, words, 16);
  FP_TILE_SHAPES(s);
}

// While a session is alive, the tiles of its thread have their usual shape: 16 rows, 16 words.
struct TileSession {
  TileSession() { shape_tiles(16, 16, 16); }
  ~TileSession() { FP_TILE_RELEASE(); }
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;
};

// Sums of up to 32 rows and 32 lanes. Distances are in words.
struct TileBlock {
  const float* in;  // what the products are added to; null: 0
  int64_t in_row;   // from one row to the next
  float* out;
  int64_t out_row;
  const Word *a, *b;
  int64_t a_row, a_lower, b_row;  // a_lower: from row 0 of a to row 16
  int64_t a_step, b_step;  // from one step to the next; a step is as many words of k as the shape of the tiles says
  int64_t steps;
};

template <bool kLower, bool kRight>
FP_INLINE void tile_block(const TileBlock& t) {
  const int64_t in_row = t.in_row * 4, out_row = t.out_row * 4, a_row = t.a_row * 4, b_row = t.b_row * 4;
  FP_TILE_FENCE();
  if (t.in != nullptr) {
    const float* const low = t.in + 16 * t.in_row;
    FP_TILE_LOAD(0, t.in, in_row);
    if constexpr (kRight) FP_TILE_LOAD(1, t.in + 16, in_row);
    if constexpr (kLower) FP_TILE_LOAD(2, low, in_row);
    if constexpr (kLower && kRight) FP_TILE_LOAD(3, low + 16, in_row);
  } else {
    FP_TILE_ZERO(0);
    if constexpr (kRight) FP_TILE_ZERO(1);
    if constexpr (kLower) FP_TILE_ZERO(2);
    if constexpr (kLower && kRight) FP_TILE_ZERO(3);
  }
  for (int64_t s = 0; s < t.steps; ++s) {
    const Word *a = t.a + s * t.a_step, *b = t.b + s * t.b_step;
    FP_TILE_LOAD(4, a, a_row);
    FP_TILE_LOAD(6, b, b_row);
    FP_TILE_DOT(0, 4, 6);
    if constexpr (kRight) {
      FP_TILE_LOAD(7, b + 16, b_row);
      FP_TILE_DOT(1, 4, 7);
    }
    if constexpr (kLower) {
      FP_TILE_LOAD(5, a + t.a_lower, a_row);
      FP_TILE_DOT(2, 5, 6);
      if constexpr (kRight) FP_TILE_DOT(3, 5, 7);
    }
  }
  float* const low = t.out + 16 * t.out_row;
  FP_TILE_STORE(0, t.out, out_row);
  if constexpr (kRight) FP_TILE_STORE(1, t.out + 16, out_row);
  if constexpr (kLower) FP_TILE_STORE(2, low, out_row);
  if constexpr (kLower && kRight) FP_TILE_STORE(3, low + 16, out_row);
}

// The same for a block with or without rows from 16 on and lanes from 16 on.
FP_INLINE void tile_block(const TileBlock& t, bool lower, bool right) {
  if (lower)
    right ? tile_block<true, true>(t) : tile_block<true, false>(t);
  else
    right ? tile_block<false, true>(t) : tile_block<false, false>(t);
}

// Computes rows [0, m) and `vectors` vectors of lanes of blocks like `whole`, whose steps have `words` words of k.
FP_INLINE void add_steps(const TileBlock& whole, int64_t words, int64_t m, int64_t vectors) {
  bool usual = true;
  for (int64_t row = 0; row < m; row += 32) {
    const int64_t upper = smaller(16, m - row), lower = larger(0, smaller(16, m - row - 16));
    if (upper < 16 || (lower > 0 && lower < 16) || words != 16) {
      shape_tiles(upper, lower, words);
      usual = false;
    }
    for (int64_t v = 0; v < vectors; v += 2) {
      TileBlock t = whole;
      if (t.in != nullptr) t.in += row * t.in_row + v * 16;
      t.out += row * t.out_row + v * 16;
      t.a += row * t.a_row;
      t.b += v * 16;
      tile_block(t, lower > 0, v + 1 < vectors);
    }
  }
  if (!usual) shape_tiles(16, 16, 16);
}

}  // namespace fp::cpu::FP_ISA

#else

namespace fp::cpu::FP_ISA {

struct TileSession {
  TileSession() {}  // not trivial: a session is not an unused variable
};

}  // namespace fp::cpu::FP_ISA

#endif
