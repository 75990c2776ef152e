// The AMX instructions that the kernels use, or their twin. A tile register holds up to 16 rows of 64 bytes; one
// instruction multiplies 16 rows of a by 16 lanes of b, 16 words of bf16 pairs deep, and adds to 16 x 16 sums.
//
// The twin (FP_AMX_TWIN) computes the same in memory with any instruction set, by the operation that Intel documents
// for each instruction, so that kernels are tested where there is no AMX.
#pragma once

#include "ops/cpu/kernels/units.h"

#if defined(__AMX_BF16__) || defined(FP_AMX_TWIN)
#define FP_AMX_TILES
#endif

#ifdef FP_AMX_TILES

namespace fp::cpu::FP_ISA {

// Operand of LDTILECFG: bytes per row and number of rows of each tile.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

}  // namespace fp::cpu::FP_ISA

#endif

#if defined(__AMX_BF16__)

// The intrinsics do not declare the memory that they read, so a fence must follow the last store to it.
#define FP_TILE_FENCE() __asm__ volatile("" : : : "memory")
#define FP_TILE_SHAPES(shapes) __asm__ volatile("ldtilecfg %0" : : "m"(shapes))
#define FP_TILE_RELEASE() _tile_release()
#define FP_TILE_ZERO(tile) _tile_zero(tile)
#define FP_TILE_LOAD(tile, p, row_bytes) _tile_loadd(tile, p, row_bytes)
#define FP_TILE_STORE(tile, p, row_bytes) _tile_stored(tile, p, row_bytes)
#define FP_TILE_DOT(sums, a, b) _tile_dpbf16ps(sums, a, b)

#elif defined(FP_AMX_TWIN)

namespace fp::cpu::FP_ISA {

// The tiles of a thread; `live` is false without a configuration, where the instructions would fault.
struct TwinTiles {
  bool live = false;
  TileShapes shapes;
  alignas(64) Word tile[8][16][16];
};
static thread_local TwinTiles twin;

// Traps like the processor when a tile is used that has no shape.
FP_INLINE void require_shape(int tile) {
  if (!twin.live || twin.shapes.rows[tile] == 0) __builtin_trap();
}

FP_INLINE void set_twin_shapes(const TileShapes& s) {
  twin.live = true;
  twin.shapes = s;
  memset(twin.tile, 0, sizeof twin.tile);
}
FP_INLINE void zero_twin_tile(int tile) {
  require_shape(tile);
  memset(twin.tile[tile], 0, sizeof twin.tile[tile]);
}
FP_INLINE void load_twin_tile(int tile, const void* p, int64_t row_bytes) {
  zero_twin_tile(tile);
  for (int64_t r = 0; r < twin.shapes.rows[tile]; ++r)
    memcpy(twin.tile[tile][r], static_cast<const std::byte*>(p) + r * row_bytes, twin.shapes.row_bytes[tile]);
}
FP_INLINE void store_twin_tile(int tile, void* p, int64_t row_bytes) {
  require_shape(tile);
  for (int64_t r = 0; r < twin.shapes.rows[tile]; ++r)
    memcpy(static_cast<std::byte*>(p) + r * row_bytes, twin.tile[tile][r], twin.shapes.row_bytes[tile]);
}

// Sets the floating-point state of x86. What is computed between two calls must be loaded after the first and stored
// before the second.
FP_INLINE uint32_t exchange_mxcsr(uint32_t value) {
#ifdef __x86_64__
  uint32_t before = 0;
  __asm__ volatile("stmxcsr %0" : "=m"(before) : : "memory");
  __asm__ volatile("ldmxcsr %0" : : "m"(value) : "memory");
  return before;
#else
  return value;
#endif
}

// TDPBF16PS: the even and the odd elements of a row are summed separately, in order, and their sums added last. A
// product of two bf16 is exact in f32, so that product and sum are one rounding, as in the fused instruction.
FP_INLINE void add_twin_products(int sums, int a, int b) {
  require_shape(sums), require_shape(a), require_shape(b);
  const TileShapes& s = twin.shapes;
  const int64_t words = s.row_bytes[a] / 4;
  if (s.rows[a] != s.rows[sums] || s.rows[b] != words || s.row_bytes[b] != s.row_bytes[sums]) __builtin_trap();
  constexpr uint32_t kDefault = 0x1f80, kDenormalsAreZero = 0x0040, kFlushToZero = 0x8000;
  const uint32_t before = exchange_mxcsr(kDefault | kDenormalsAreZero | kFlushToZero);
  Vf b_even[16], b_odd[16];
  for (int64_t w = 0; w < words; ++w) {
    const Vu y = load_words(twin.tile[b][w]);
    b_even[w] = as_float(y << 16), b_odd[w] = as_float(y & 0xffff0000u);
  }
  for (int64_t r = 0; r < s.rows[sums]; ++r) {
    Vf even{}, odd{};
    for (int64_t w = 0; w < words; ++w) {
      const Word x = twin.tile[a][r][w];
      even += __builtin_bit_cast(float, x << 16) * b_even[w];
      odd += __builtin_bit_cast(float, x & 0xffff0000u) * b_odd[w];
    }
    store_words(twin.tile[sums][r], as_bits(as_float(load_words(twin.tile[sums][r])) + (even + odd)));
  }
  exchange_mxcsr(before);
}

}  // namespace fp::cpu::FP_ISA

#define FP_TILE_FENCE() (void)0
#define FP_TILE_SHAPES(shapes) set_twin_shapes(shapes)
#define FP_TILE_RELEASE() (void)(twin.live = false)
#define FP_TILE_ZERO(tile) zero_twin_tile(tile)
#define FP_TILE_LOAD(tile, p, row_bytes) load_twin_tile(tile, p, row_bytes)
#define FP_TILE_STORE(tile, p, row_bytes) store_twin_tile(tile, p, row_bytes)
#define FP_TILE_DOT(sums, a, b) add_twin_products(sums, a, b)

#endif
