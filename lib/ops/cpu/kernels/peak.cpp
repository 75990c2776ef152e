// The limit of the product kernels: multiply-accumulates whose operands stay in registers.
#include "ops/cpu/kernels/dispatch.h"
#include "ops/cpu/kernels/table.h"
#include "ops/cpu/kernels/tile_amx.h"
#include "ops/cpu/kernels/units.h"

namespace fp::cpu::FP_ISA {
namespace {

[[maybe_unused]] constexpr int64_t kTileRounds = 10;  // rounds of vectors for one of tiles
constexpr int kChains = 12;  // independent sums: more than instructions in flight, and registers for all of them

// Adds to each sum its own product with a factor. Another operand would be the same in every round, and multiplied
// once.
template <class Unit>
void multiply_accumulate(int64_t repeats, float* sink) {
  __asm__ volatile("" : : "r"(sink) : "memory");  // from here on the compiler does not know the values
  Word factor;
  memcpy(&factor, sink, sizeof factor);
  Vf c[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) c[i] = splat(sink[1] + static_cast<float>(i));
  for (int64_t r = 0; r < repeats; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) c[i] = Unit::mac(c[i], &factor, as_bits(c[i]));
  Vf all = c[0];
#pragma GCC unroll 12
  for (int i = 1; i < kChains; ++i) all += c[i];
  sink[0] = sum(all);
  __asm__ volatile("" : : "r"(sink) : "memory");
}

template <class Unit>
double flops_of(int64_t repeats) {
  return 2.0 * Unit::kPerWord * kLanes * kChains * static_cast<double>(repeats);
}

#ifdef FP_AMX_TILES
// Multiplies tiles of zeros, whose time does not depend on the values. One instruction takes 16 cycles, so fewer rounds
// are as long as those of vectors.
double multiply_tiles(int64_t repeats) {
  const int64_t rounds = blocks_of(repeats, kTileRounds);
  const TileSession tiles;
  FP_TILE_ZERO(0);
  FP_TILE_ZERO(1);
  FP_TILE_ZERO(2);
  FP_TILE_ZERO(3);
  FP_TILE_ZERO(4);
  FP_TILE_ZERO(5);
  FP_TILE_ZERO(6);
  FP_TILE_ZERO(7);
  for (int64_t r = 0; r < rounds; ++r) {
    FP_TILE_DOT(0, 4, 6);
    FP_TILE_DOT(1, 4, 7);
    FP_TILE_DOT(2, 5, 6);
    FP_TILE_DOT(3, 5, 7);
  }
  return 4.0 * 16 * 16 * 32 * 2 * static_cast<double>(rounds);
}
#endif

}  // namespace

double multiply_in_registers(bool bf16, int64_t repeats) {
#ifdef FP_AMX_TILES
  if (bf16) return multiply_tiles(repeats);
#endif
  float sink[2] = {};
  if (bf16) {
    multiply_accumulate<Bf16Storage>(repeats, sink);
    return flops_of<Bf16Storage>(repeats);
  }
  multiply_accumulate<F32Unit>(repeats, sink);
  return flops_of<F32Unit>(repeats);
}

}  // namespace fp::cpu::FP_ISA
