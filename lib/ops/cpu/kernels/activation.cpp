// gelu (tanh form), swiglu and gegelu. The tanh form of gelu is x * logistic(2u): 0.5 (1 + tanh u) = logistic(2u).
#include "ops/cpu/kernels/dispatch.h"
#include "ops/cpu/kernels/math.h"
#include "ops/cpu/kernels/table.h"

namespace fp::cpu::FP_ISA {
namespace {

constexpr float kGeluLinear = 1.5957691216057308f;  // 2 sqrt(2/pi)
constexpr float kGeluCubic = kGeluLinear * 0.044715f;
constexpr float kGegeluSlope = 1.702f;

FP_INLINE Vf gelu(Vf x) { return x * logistic(x * (kGeluLinear + kGeluCubic * (x * x))); }

FP_INLINE Vf gelu_slope(Vf x) {
  const Vf x2 = x * x, s = logistic(x * (kGeluLinear + kGeluCubic * x2));
  return s + x * s * (1.0f - s) * (kGeluLinear + 3.0f * kGeluCubic * x2);
}

// Masks of the lanes to clamp. Only finite values are clamped, infinities pass. limit = 0: no limit.
FP_INLINE Vi above(Vf x, float limit) { return (x > limit) & (x < __builtin_inff()) & splat_int(limit > 0 ? -1 : 0); }
FP_INLINE Vi below(Vf x, float limit) { return (x < -limit) & (x > -__builtin_inff()) & splat_int(limit > 0 ? -1 : 0); }

struct Gegelu {
  Vf a, b, s;
  Vi a_cut, b_cut;
};
FP_INLINE Gegelu gegelu(Vf a, Vf b, float limit) {
  Gegelu g;
  g.a_cut = above(a, limit);
  const Vi b_high = above(b, limit), b_low = below(b, limit);
  g.b_cut = b_high | b_low;
  g.a = g.a_cut ? splat(limit) : a;
  g.b = b_high ? splat(limit) : (b_low ? splat(-limit) : b);
  g.s = logistic(g.a * kGegeluSlope);
  return g;
}

// Loads the even and the odd elements of 2 * kLanes elements, or of the first 2 * n.
template <class T>
FP_INLINE void load_pairs(const T* p, Vf& even, Vf& odd, Full) {
  const Vf lo = load(p), hi = load(p + kLanes);
  even = evens(lo, hi);
  odd = odds(lo, hi);
}
template <class T>
FP_INLINE void load_pairs(const T* p, Vf& even, Vf& odd, Part t) {
  T v[2 * kLanes] = {};
  for (int i = 0; i < 2 * t.n; ++i) v[i] = p[i];
  load_pairs(v, even, odd, Full{});
}
template <class T>
FP_INLINE void store_pairs(T* p, Vf even, Vf odd, Full) {
  store(p, zip_lo(even, odd));
  store(p + kLanes, zip_hi(even, odd));
}
template <class T>
FP_INLINE void store_pairs(T* p, Vf even, Vf odd, Part t) {
  T v[2 * kLanes];
  store_pairs(v, even, odd, Full{});
  for (int i = 0; i < 2 * t.n; ++i) p[i] = v[i];
}

template <class T>
FP_INLINE void forward_row(const ActivationArgs& a, const T* x, T* y) {
  const int64_t n = a.cols;
  if (a.kind == 0) {
    columns(n, [&](int64_t c, auto w) { store(y + c, gelu(load(x + c, w)), w); });
  } else if (a.kind == 1) {
    columns(n, [&](int64_t c, auto w) {
      const Vf gate = load(x + c, w);
      store(y + c, gate * logistic(gate) * load(x + n + c, w), w);
    });
  } else {
    columns(n, [&](int64_t c, auto w) {
      Vf left, right;
      load_pairs(x + 2 * c, left, right, w);
      const Gegelu g = gegelu(left, right, a.limit);
      store(y + c, g.a * g.s * (g.b + 1.0f), w);
    });
  }
}

template <class T>
FP_INLINE void backward_row(const ActivationArgs& a, const T* x, const T* dy, T* dx) {
  const int64_t n = a.cols;
  if (a.kind == 0) {
    columns(n, [&](int64_t c, auto w) { store(dx + c, load(dy + c, w) * gelu_slope(load(x + c, w)), w); });
  } else if (a.kind == 1) {
    columns(n, [&](int64_t c, auto w) {
      const Vf gate = load(x + c, w), up = load(x + n + c, w), g = load(dy + c, w), s = logistic(gate);
      store(dx + c, g * up * (s * (1.0f + gate * (1.0f - s))), w);
      store(dx + n + c, g * (gate * s), w);
    });
  } else {
    columns(n, [&](int64_t c, auto w) {
      Vf left, right;
      load_pairs(x + 2 * c, left, right, w);
      const Gegelu g = gegelu(left, right, a.limit);
      const Vf d = load(dy + c, w);
      const Vf da = d * (g.b + 1.0f) * (g.s * (1.0f + kGegeluSlope * g.a * (1.0f - g.s)));
      const Vf db = d * (g.a * g.s);
      store_pairs(dx + 2 * c, g.a_cut ? Vf{} : da, g.b_cut ? Vf{} : db, w);
    });
  }
}

}  // namespace

void activation(const ActivationArgs& a) {
  const int64_t inputs = a.kind == 0 ? a.cols : 2 * a.cols;
  with_type(a.bf16, [&](auto t) {
    using T = decltype(t);
    parallel_for(a.rows, row_grain(a.cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        forward_row(a, static_cast<const T*>(a.x) + r * inputs, static_cast<T*>(a.y) + r * a.cols);
    });
  });
}

void activation_backward(const ActivationArgs& a) {
  const int64_t inputs = a.kind == 0 ? a.cols : 2 * a.cols;
  with_type(a.bf16, [&](auto t) {
    using T = decltype(t);
    parallel_for(a.rows, row_grain(a.cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        backward_row(a, static_cast<const T*>(a.x) + r * inputs, static_cast<const T*>(a.dy) + r * a.cols,
                     static_cast<T*>(a.y) + r * inputs);
    });
  });
}

}  // namespace fp::cpu::FP_ISA
