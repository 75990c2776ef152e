// Checksums of bit patterns, modulo 2^32, and of values, in short f32 blocks whose sums are added up in double. Memory
// bound.
#include "ops/cpu/kernels/bit_sum.h"
#include "ops/cpu/kernels/dispatch.h"
#include "ops/cpu/kernels/table.h"

namespace fp::cpu::FP_ISA {
namespace {

template <class Word>
void block_bits(uint32_t* sums, const Word* x, int64_t n) {
  BitSum sum;
  const int64_t rows = n / kLanes;
  for (int64_t r = 0; r < rows; ++r) sum.add(load_row(x + r * kLanes));
  sum.finish(sums, x, rows, n);
}

template <class T>
void block_values(double* sums, const T* x, int64_t n) {
  constexpr int64_t kShort = 64 * kLanes;
  sums[0] = sums[1] = 0;
  for (int64_t from = 0; from < n; from += kShort) {
    const int64_t here = n - from < kShort ? n - from : kShort;
    Vf plain = splat(0), magnitudes = splat(0);
    columns(here, [&](int64_t c, auto w) {
      const Vf v = load(x + from + c, w);
      plain += v;
      magnitudes += magnitude_of(v);
    });
    for (int i = 0; i < kLanes; ++i) {
      sums[0] += static_cast<double>(plain[i]);
      sums[1] += static_cast<double>(magnitudes[i]);
    }
  }
}

}  // namespace

void bit_sums(uint32_t* sums, const void* x, bool bf16, const Block* blocks, int64_t count) {
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (bf16)
        block_bits(sums + 2 * i, static_cast<const uint16_t*>(x) + blocks[i].offset, blocks[i].count);
      else
        block_bits(sums + 2 * i, static_cast<const uint32_t*>(x) + blocks[i].offset, blocks[i].count);
    }
  });
}

void piece_sums(double* sums, const void* x, bool bf16, const Block* blocks, int64_t count) {
  with_type(bf16, [&](auto t) {
    using T = decltype(t);
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        block_values(sums + 2 * i, static_cast<const T*>(x) + blocks[i].offset, blocks[i].count);
    });
  });
}

}  // namespace fp::cpu::FP_ISA
