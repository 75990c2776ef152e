// Copies between the fused projection [M, (H+2K)d] and q, k, v [M, heads, d], and rotary embedding, fused or alone.
#include "ops/cpu/kernels/dispatch.h"
#include "ops/cpu/kernels/table.h"

namespace fp::cpu::FP_ISA {
namespace {

template <class T>
FP_INLINE void copy_head(T* dst, const T* src, int64_t d) {
  memcpy(dst, src, static_cast<size_t>(d) * sizeof(T));
}

// Rotates the halves (i, i + d/2) by the angle, or back with sign = -1.
template <class T>
FP_INLINE void rotate_head(T* dst, const T* src, int64_t d, const float* cos, const float* sin, float sign) {
  const int64_t half = d / 2;
  columns(half, [&](int64_t c, auto w) {
    const Vf a = load(src + c, w), b = load(src + half + c, w), co = load(cos + c, w), si = load(sin + c, w) * sign;
    store(dst + c, a * co - b * si, w);
    store(dst + half + c, b * co + a * si, w);
  });
}

template <class T>
FP_INLINE void qkv_row(const QkvArgs& a, int64_t r) {
  const int64_t d = a.head_dim, group = a.heads / a.kv_heads;
  T* fused = static_cast<T*>(a.qkv) + r * a.columns;
  const float* cos = a.cos == nullptr ? nullptr : a.cos + a.positions[r] * (d / 2);
  const float* sin = a.cos == nullptr ? nullptr : a.sin + a.positions[r] * (d / 2);
  const auto move = [&](T* split, int64_t column, bool rotated) {
    T* dst = a.backward ? fused + column : split;
    const T* src = a.backward ? split : fused + column;
    if (rotated && cos != nullptr)
      rotate_head(dst, src, d, cos, sin, a.backward ? -1.0f : 1.0f);
    else
      copy_head(dst, src, d);
  };
  for (int64_t h = 0; h < a.heads; ++h)
    move(static_cast<T*>(a.q) + (r * a.heads + h) * d, h / group * a.group_step + h % group * a.head_step, true);
  for (int64_t h = 0; h < a.kv_heads; ++h) {
    move(static_cast<T*>(a.k) + (r * a.kv_heads + h) * d, a.k_first + h * a.kv_step, true);
    move(static_cast<T*>(a.v) + (r * a.kv_heads + h) * d, a.v_first + h * a.kv_step, false);
  }
}

}  // namespace

void qkv(const QkvArgs& a) {
  with_type(a.bf16, [&](auto t) {
    parallel_for(a.rows, row_grain(a.columns), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) qkv_row<decltype(t)>(a, r);
    });
  });
}

void rope(const RopeArgs& a) {
  const int64_t d = a.head_dim, width = a.heads * d;
  with_type(a.bf16, [&](auto t) {
    using T = decltype(t);
    parallel_for(a.tokens, row_grain(width), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t row = a.positions[r] * (d / 2);
        for (int64_t at = r * width; at < (r + 1) * width; at += d)
          rotate_head(static_cast<T*>(a.y) + at, static_cast<const T*>(a.x) + at, d, a.cos + row, a.sin + row,
                      a.back ? -1.0f : 1.0f);
      }
    });
  });
}

}  // namespace fp::cpu::FP_ISA
