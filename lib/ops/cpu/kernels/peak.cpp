// The limit of the product kernels: multiply-accumulates whose operands stay in registers.
#include "ops/cpu/kernels/dispatch.h"
#include "ops/cpu/kernels/table.h"
#include "ops/cpu/kernels/units.h"

namespace fp::cpu::FP_ISA {
namespace {

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

}  // namespace

double multiply_in_registers(bool bf16, int64_t repeats) {
  float sink[2] = {};
  if (bf16) {
    multiply_accumulate<Bf16Storage>(repeats, sink);
    return flops_of<Bf16Storage>(repeats);
  }
  multiply_accumulate<F32Unit>(repeats, sink);
  return flops_of<F32Unit>(repeats);
}

}  // namespace fp::cpu::FP_ISA
