// LayerNorm and RMSNorm, one row at a time, which stays in the first-level cache over the passes.
#include "ops/cpu/kernels/column_sums.h"
#include "ops/cpu/kernels/table.h"

namespace fp::cpu::FP_ISA {
namespace {

template <class T>
FP_INLINE float row_mean(const T* x, int64_t n) {
  Vf total{};
  columns(n, [&](int64_t c, auto w) { total += load(x + c, w); });
  return sum(total) / static_cast<float>(n);
}

template <class T>
FP_INLINE float row_square(const T* x, int64_t n, float mean) {
  Vf total{};
  columns(n, [&](int64_t c, auto w) {
    const Vf d = keep(load(x + c, w) - mean, w);
    total += d * d;
  });
  return sum(total) / static_cast<float>(n);
}

template <class T>
FP_INLINE void norm_row(const NormArgs& a, int64_t r) {
  const int64_t n = a.cols;
  const T* x = static_cast<const T*>(a.x) + r * n;
  if (a.sum != nullptr) {
    const T* residual = static_cast<const T*>(a.residual) + r * n;
    T* total = static_cast<T*>(a.sum) + r * n;
    columns(n, [&](int64_t c, auto w) { store(total + c, load(x + c, w) + load(residual + c, w), w); });
    x = total;
  }
  const float mean = a.layernorm ? row_mean(x, n) : 0.0f;
  const float rstd = static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(row_square(x, n, mean)) + a.eps));
  a.stats[2 * r] = mean;
  a.stats[2 * r + 1] = rstd;
  const T* gain = static_cast<const T*>(a.gain);
  const T* bias = static_cast<const T*>(a.bias);
  T* y = static_cast<T*>(a.y) + r * n;
  columns(n, [&](int64_t c, auto w) {
    Vf v = rounded<T>((load(x + c, w) - mean) * rstd) * load(gain + c, w);
    if (bias != nullptr) v += load(bias + c, w);
    store(y + c, v, w);
  });
}

// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * gain; RMSNorm has no mean(g).
template <class T>
FP_INLINE void norm_backward_row(const NormBackwardArgs& a, int64_t r) {
  const int64_t n = a.cols;
  const T* x = static_cast<const T*>(a.x) + r * n;
  const T* dy = static_cast<const T*>(a.dy) + r * n;
  const T* gain = static_cast<const T*>(a.gain);
  T* dx = static_cast<T*>(a.dx) + r * n;
  const float mean = a.stats[2 * r], rstd = a.stats[2 * r + 1];
  Vf g_total{}, gx_total{};
  columns(n, [&](int64_t c, auto w) {
    const Vf g = load(dy + c, w) * load(gain + c, w);
    g_total += g;
    gx_total += g * ((load(x + c, w) - mean) * rstd);
  });
  const float g_mean = a.layernorm ? sum(g_total) / static_cast<float>(n) : 0.0f;
  const float gx_mean = sum(gx_total) / static_cast<float>(n);
  columns(n, [&](int64_t c, auto w) {
    const Vf g = load(dy + c, w) * load(gain + c, w), xhat = (load(x + c, w) - mean) * rstd;
    Vf v = (g - g_mean - xhat * gx_mean) * rstd;
    if (a.add) v += load(dx + c, w);
    store(dx + c, v, w);
  });
}

}  // namespace

void norm(const NormArgs& a) {
  with_type(a.bf16, [&](auto t) {
    parallel_for(a.rows, row_grain(a.cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) norm_row<decltype(t)>(a, r);
    });
  });
}

void norm_backward_input(const NormBackwardArgs& a) {
  with_type(a.bf16, [&](auto t) {
    parallel_for(a.rows, row_grain(a.cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) norm_backward_row<decltype(t)>(a, r);
    });
  });
}

void norm_backward_weight(const NormBackwardArgs& a) {
  with_type(a.bf16, [&](auto t) {
    using T = decltype(t);
    const int64_t n = a.cols;
    float* partial_gain = a.partial;
    float* partial_bias = a.partial + row_chunks(a.rows) * n;
    sum_chunks(a.rows, n, [&](int64_t chunk, int64_t r, int64_t first, int64_t last) {
      const T* x = static_cast<const T*>(a.x) + r * n;
      const T* dy = static_cast<const T*>(a.dy) + r * n;
      const float mean = a.stats[2 * r], rstd = a.stats[2 * r + 1];
      float* gain = partial_gain + chunk * n;
      float* bias = partial_bias + chunk * n;
      const bool start = r % kRowChunk == 0;
      columns(last - first, [&](int64_t i, auto w) {
        const int64_t c = first + i;
        const Vf g = load(dy + c, w);
        const Vf dgain = g * rounded<T>((load(x + c, w) - mean) * rstd);
        store(gain + c, start ? dgain : load(gain + c, w) + dgain, w);
        if (a.dbias != nullptr) store(bias + c, start ? g : load(bias + c, w) + g, w);
      });
    });
    add_chunks(a.dgain, partial_gain, a.rows, n, a.add);
    if (a.dbias != nullptr) add_chunks(a.dbias, partial_bias, a.rows, n, a.add);
  });
}

void bias_backward(const BiasBackwardArgs& a) {
  with_type(a.bf16, [&](auto t) {
    using T = decltype(t);
    sum_chunks(a.rows, a.cols, [&](int64_t chunk, int64_t r, int64_t first, int64_t last) {
      const T* dy = static_cast<const T*>(a.dy) + r * a.cols;
      float* total = a.partial + chunk * a.cols;
      const bool start = r % kRowChunk == 0;
      columns(last - first, [&](int64_t i, auto w) {
        const int64_t c = first + i;
        store(total + c, start ? load(dy + c, w) : load(total + c, w) + load(dy + c, w), w);
      });
    });
    add_chunks(a.db, a.partial, a.rows, a.cols, a.add);
  });
}

}  // namespace fp::cpu::FP_ISA
