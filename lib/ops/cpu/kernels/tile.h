// Register tiles of matrix products: c[m][lanes] (+)= a[m][k] b[k][lanes] on words (units.h). A tile keeps its sums in
// registers over the whole k, so a result depends only on the order of k, never on how m and the lanes were divided.
#pragma once

#include "ops/cpu/kernels/tile_amx.h"
#include "ops/cpu/kernels/units.h"

namespace fp::cpu::FP_ISA {

#if defined(__AVX512F__)
constexpr int kTileVectors = 4, kTileRows = 6;  // 24 sums + 4 of b: 32 registers
#else
constexpr int kTileVectors = 2, kTileRows = 6;  // 12 sums + 2 of b + 1 of a: 16 registers
#endif

struct Product2d {
  float* c;
  int64_t ldc;
  const Word* a;
  int64_t lda;
  const Word* b;
  int64_t ldb;
  int64_t k;            // words
  bool add;             // add to c instead of overwriting it
  const float* factor;  // one factor per lane, by which c is multiplied first; null: 1
};

// Returns the product of the lanes from vector v on.
FP_INLINE Product2d from_vector(Product2d p, int v) {
  p.c += v * kLanes;
  p.b += v * kLanes;
  if (p.factor != nullptr) p.factor += v * kLanes;
  return p;
}

template <class Unit, int M, int V>
static void tile(const Product2d& p, int64_t row, int64_t lane) {
  Vf sums[M][V];
  float* c = p.c + row * p.ldc + lane;
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      sums[i][v] = p.add ? load(c + i * p.ldc + v * kLanes) : Vf{};
      if (p.factor != nullptr) sums[i][v] *= load(p.factor + lane + v * kLanes);
    }
  const Word* a = p.a + row * p.lda;
  const Word* b = p.b + lane;
  const int64_t lda = p.lda, ldb = p.ldb;
#pragma GCC unroll kUnroll
  for (int64_t k = 0; k < p.k; ++k) {
    Vu bv[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) bv[v] = load_words(b + k * ldb + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[i][v] = Unit::mac(sums[i][v], a + i * lda + k, bv[v]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store(c + i * p.ldc + v * kLanes, sums[i][v]);
}

template <class Unit, int V>
FP_INLINE void multiply_rows(const Product2d& p, int64_t m, int64_t lane) {
  int64_t r = 0;
  for (; r + kTileRows <= m; r += kTileRows) tile<Unit, kTileRows, V>(p, r, lane);
  if (r + 4 <= m) tile<Unit, 4, V>(p, r, lane), r += 4;
  if (r + 2 <= m) tile<Unit, 2, V>(p, r, lane), r += 2;
  if (r < m) tile<Unit, 1, V>(p, r, lane);
}

#ifdef FP_AMX_TILES
// The remainder of k after whole steps of 16 words is added last.
[[maybe_unused]] static void multiply_by_tiles(const Product2d& p, int64_t m, int64_t vectors) {
  if (p.factor != nullptr)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t lane = 0; lane < vectors * kLanes; lane += kLanes) {
        float* c = p.c + i * p.ldc + lane;
        store(c, load(c) * load(p.factor + lane));
      }
  const int64_t steps = p.k / 16, rest = p.k % 16;
  TileBlock t{.in = p.add ? p.c : nullptr,
              .in_row = p.ldc,
              .out = p.c,
              .out_row = p.ldc,
              .a = p.a,
              .b = p.b,
              .a_row = p.lda,
              .a_lower = 16 * p.lda,
              .b_row = p.ldb,
              .a_step = 16,
              .b_step = 16 * p.ldb,
              .steps = steps};
  if (steps > 0 || rest == 0) add_steps(t, 16, m, vectors);
  if (rest == 0) return;
  t.a += steps * t.a_step;
  t.b += steps * t.b_step;
  if (steps > 0) t.in = p.c;
  t.steps = 1;
  add_steps(t, rest, m, vectors);
}
#endif

// Multiplies m rows and `vectors` vectors of lanes. With bf16 words a TileSession must be alive.
template <class Unit>
FP_INLINE void multiply(const Product2d& p, int64_t m, int64_t vectors) {
#ifdef FP_AMX_TILES
  if constexpr (Unit::kPerWord == 2) return multiply_by_tiles(p, m, vectors);
#endif
  int64_t groups = (vectors + kTileVectors - 1) / kTileVectors;
  for (int64_t v = 0; v < vectors; --groups) {
    const int64_t take = (vectors - v + groups - 1) / groups, lane = v * kLanes;
    if (take == 1) multiply_rows<Unit, 1>(p, m, lane);
    if (take == 2) multiply_rows<Unit, 2>(p, m, lane);
    if constexpr (kTileVectors > 2) {
      if (take == 3) multiply_rows<Unit, 3>(p, m, lane);
      if (take == 4) multiply_rows<Unit, 4>(p, m, lane);
    }
    v += take;
  }
}

}  // namespace fp::cpu::FP_ISA
