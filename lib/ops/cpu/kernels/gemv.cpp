// Products with few rows of a (generation, one token per sample): every row of b is read once, without packing, and
// summed along itself. Bound by reading b; packing it would cost several times that.
#include "ops/cpu/kernels/dispatch.h"
#include "ops/cpu/kernels/table.h"
#include "ops/cpu/kernels/units.h"

namespace fp::cpu::FP_ISA {
namespace {

constexpr int kTogether = 4;  // rows of b that are summed at once

template <class T>
FP_INLINE Vf mac(Vf sum, const T* a, const T* b) {
#ifdef __AVX512BF16__
  if constexpr (sizeof(T) == 2) {
    const __m512bh x = reinterpret_cast<__m512bh>(_mm512_loadu_si512(a)),
                   y = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b));
    return reinterpret_cast<Vf>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(sum), x, y));
  }
#endif
  return sum + load(a) * load(b);
}

#ifdef __AVX512BF16__
template <class T>
constexpr int kStep = sizeof(T) == 2 ? 2 * kLanes : kLanes;
#else
template <class T>
constexpr int kStep = kLanes;
#endif

template <class T>
FP_INLINE void store_one(const GemmArgs& g, int64_t row, int64_t n, float x) {
  if (g.bias != nullptr) x += static_cast<float>(static_cast<const T*>(g.bias)[n]);
  if (g.c_bf16)
    store(static_cast<bf16*>(g.c) + row * g.n + n, splat(x), Part{1});
  else
    static_cast<float*>(g.c)[row * g.n + n] = x;
}

// Computes the products of row `row` of a with rows [n, n + count) of b.
template <class T, int count>
FP_INLINE void dot_rows(const GemmArgs& g, int64_t row, int64_t n) {
  const T* a = static_cast<const T*>(g.a) + row * g.k;
  const T* b = static_cast<const T*>(g.b) + n * g.k;
  Vf sums[count] = {};
  int64_t k = 0;
  for (; k + kStep<T> <= g.k; k += kStep<T>)
#pragma GCC unroll 4
    for (int i = 0; i < count; ++i) sums[i] = mac(sums[i], a + k, b + i * g.k + k);
  for (int i = 0; i < count; ++i) {
    columns(g.k - k, [&](int64_t c, auto w) { sums[i] += load(a + k + c, w) * load(b + i * g.k + k + c, w); });
    store_one<T>(g, row, n + i, sum(sums[i]));
  }
}

}  // namespace

void gemv(const GemmArgs& g) {
  with_type(g.bf16, [&](auto t) {
    using T = decltype(t);
    parallel_for(g.n, kTogether * larger(1, 4096 / g.k), [&](int64_t begin, int64_t end) {
      int64_t n = begin;
      for (; n + kTogether <= end; n += kTogether)
        for (int64_t row = 0; row < g.m; ++row) dot_rows<T, kTogether>(g, row, n);
      for (; n < end; ++n)
        for (int64_t row = 0; row < g.m; ++row) dot_rows<T, 1>(g, row, n);
    });
  });
}

}  // namespace fp::cpu::FP_ISA
