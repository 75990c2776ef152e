// Products of bf16 words by AMX: a tile register holds 16 rows of 64 bytes, so one instruction adds the products of 16
// words of k to 16 x 16 sums. Four tiles of sums are kept at a time. As in tile.h a sum depends only on the order of k.
#pragma once

#include "ops/cpu/kernels/units.h"

#ifdef __AMX_BF16__

namespace fp::cpu::FP_ISA {

// Operand of LDTILECFG: bytes per row and number of rows of each tile.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

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
  __asm__ volatile("ldtilecfg %0" : : "m"(s));
}

// While a session is alive, the tiles of its thread have their usual shape: 16 rows, 16 words.
struct TileSession {
  TileSession() { shape_tiles(16, 16, 16); }
  ~TileSession() { _tile_release(); }
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;
};

struct TileBlock {
  float* c;
  const Word *a, *b;
  int64_t ldc, lda, ldb;  // words
  int64_t steps, words;   // k is `steps` steps of `words` words
  bool add;
};

template <bool kLower, bool kRight>
FP_INLINE void tile_block(const TileBlock& t) {
  float *const c = t.c, *const low = c + 16 * t.ldc;
  const int64_t ldc = t.ldc * 4, lda = t.lda * 4, ldb = t.ldb * 4;
  if (t.add) {
    _tile_loadd(0, c, ldc);
    if constexpr (kRight) _tile_loadd(1, c + 16, ldc);
    if constexpr (kLower) _tile_loadd(2, low, ldc);
    if constexpr (kLower && kRight) _tile_loadd(3, low + 16, ldc);
  } else {
    _tile_zero(0);
    if constexpr (kRight) _tile_zero(1);
    if constexpr (kLower) _tile_zero(2);
    if constexpr (kLower && kRight) _tile_zero(3);
  }
  for (int64_t s = 0; s < t.steps; ++s) {
    const Word *a = t.a + s * t.words, *b = t.b + s * t.words * t.ldb;
    _tile_loadd(4, a, lda);
    _tile_loadd(6, b, ldb);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kRight) {
      _tile_loadd(7, b + 16, ldb);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kLower) {
      _tile_loadd(5, a + 16 * t.lda, lda);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kRight) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, c, ldc);
  if constexpr (kRight) _tile_stored(1, c + 16, ldc);
  if constexpr (kLower) _tile_stored(2, low, ldc);
  if constexpr (kLower && kRight) _tile_stored(3, low + 16, ldc);
}

// Computes all of c for `steps` steps of k. The tile loads do not declare the memory they read, so the barrier makes
// sure that earlier stores are complete.
FP_INLINE void add_steps(TileBlock whole, int64_t m, int64_t vectors) {
  __asm__ volatile("" : : : "memory");
  bool usual = true;
  for (int64_t row = 0; row < m; row += 32) {
    const int64_t upper = smaller(16, m - row), lower = larger(0, smaller(16, m - row - 16));
    if (upper < 16 || (lower > 0 && lower < 16) || whole.words != 16) {
      shape_tiles(upper, lower, whole.words);
      usual = false;
    }
    for (int64_t v = 0; v < vectors; v += 2) {
      TileBlock t = whole;
      t.c += row * t.ldc + v * 16;
      t.a += row * t.lda;
      t.b += v * 16;
      const bool right = v + 1 < vectors;
      if (lower > 0)
        right ? tile_block<true, true>(t) : tile_block<true, false>(t);
      else
        right ? tile_block<false, true>(t) : tile_block<false, false>(t);
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
