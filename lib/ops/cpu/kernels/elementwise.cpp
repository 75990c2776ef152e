// add, scaled_add, copy_columns, cast, dropout.
#include "ops/cpu/kernels/dispatch.h"
#include "ops/cpu/kernels/philox.h"
#include "ops/cpu/kernels/table.h"

namespace fp::cpu::FP_ISA {
namespace {

constexpr int64_t kGrain = 16384;

// y[n] = large * scale + small * other, computed as (large + small * ratio) * scale. The compiler may contract either
// of two products, and none that a load follows, so that bits would depend on where a tensor is cut.
template <class T, class U>
FP_INLINE void add_scaled(T* y, const U* large, const U* small, float scale, float other, int64_t n) {
  const float ratio = scale == 0 ? 0 : other / scale;
  columns(n, [&](int64_t c, auto w) {
    const Vf l = load(large + c, w), s = load(small + c, w);
    store(y + c, (s * ratio + l) * scale, w);
  });
}

// Computes the dropout factors of 4*kLanes elements of one token, from element 4*block on, in order.
FP_INLINE void factors(Vf out[4], const DropoutArgs& d, uint32_t block, uint32_t token, const int32_t* sample) {
  Vu counter = splat_bits(block);
  for (int i = 0; i < kLanes; ++i) counter[i] += static_cast<uint32_t>(i);
  const Words words = philox(counter, splat_bits(token), splat_bits(static_cast<uint32_t>(sample[0])),
                             splat_bits(static_cast<uint32_t>(sample[1])), d.key[0], d.key[1]);
  Vf f[4];
  for (int i = 0; i < 4; ++i) f[i] = dropout_factors(words.w[i], d.p, d.kept);
  const Vf lo02 = zip_lo(f[0], f[2]), hi02 = zip_hi(f[0], f[2]), lo13 = zip_lo(f[1], f[3]), hi13 = zip_hi(f[1], f[3]);
  out[0] = zip_lo(lo02, lo13);
  out[1] = zip_hi(lo02, lo13);
  out[2] = zip_lo(hi02, hi13);
  out[3] = zip_hi(hi02, hi13);
}

}  // namespace

void add(const AddArgs& a) {
  with_type(a.bf16, [&](auto t) {
    with_type(a.b_bf16, [&](auto u) {
      using T = decltype(t);
      using U = decltype(u);
      parallel_for(a.count, kGrain, [&](int64_t begin, int64_t end) {
        const T* x = static_cast<const T*>(a.a) + begin;
        const U* z = static_cast<const U*>(a.b) + begin;
        T* y = static_cast<T*>(a.y) + begin;
        columns(end - begin, [&](int64_t c, auto w) { store(y + c, load(x + c, w) + load(z + c, w), w); });
      });
    });
  });
}

void scaled_add(const ScaledAddArgs& a) {
  const bool first_is_large = __builtin_fabsf(a.a_scale) >= __builtin_fabsf(a.b_scale);
  with_type(a.y_bf16, [&](auto t) {
    with_type(a.bf16, [&](auto u) {
      using T = decltype(t);
      using U = decltype(u);
      parallel_for(a.count, kGrain, [&](int64_t begin, int64_t end) {
        T* y = static_cast<T*>(a.y) + begin;
        const U* x = static_cast<const U*>(a.a) + begin;
        if (a.b == nullptr) {
          columns(end - begin, [&](int64_t c, auto w) { store(y + c, load(x + c, w) * a.a_scale, w); });
          return;
        }
        const U* z = static_cast<const U*>(a.b) + begin;
        if (first_is_large)
          add_scaled(y, x, z, a.a_scale, a.b_scale, end - begin);
        else
          add_scaled(y, z, x, a.b_scale, a.a_scale, end - begin);
      });
    });
  });
}

void copy_columns(const CopyColumnsArgs& a) {
  with_type(a.bf16, [&](auto t) {
    using T = decltype(t);
    parallel_for(a.rows, row_grain(a.count), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* x = static_cast<const T*>(a.x) + r * a.x_cols;
        T* y = static_cast<T*>(a.y) + r * a.y_cols;
        if (a.add)
          columns(a.count, [&](int64_t c, auto w) { store(y + c, load(y + c, w) + load(x + c, w), w); });
        else
          memcpy(static_cast<void*>(y), x, static_cast<size_t>(a.count) * sizeof(T));
      }
    });
  });
}

void cast(const CastArgs& a) {
  parallel_for(a.count, kGrain, [&](int64_t begin, int64_t end) {
    const auto convert = [&](auto* dst, const auto* src) {
      columns(end - begin, [&](int64_t c, auto w) { store(dst + begin + c, load(src + begin + c, w), w); });
    };
    if (a.to_bf16)
      convert(static_cast<bf16*>(a.dst), static_cast<const float*>(a.src));
    else
      convert(static_cast<float*>(a.dst), static_cast<const bf16*>(a.src));
  });
}

void dropout(const DropoutTensorArgs& a) {
  with_type(a.bf16, [&](auto t) {
    using T = decltype(t);
    parallel_for(a.samples * a.tokens, row_grain(a.cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* x = static_cast<const T*>(a.x) + r * a.cols;
        T* y = static_cast<T*>(a.y) + r * a.cols;
        const int32_t* sample = a.sample_ids + r / a.tokens * 2;
        for (int64_t c = 0; c < a.cols; c += 4 * kLanes) {
          Vf f[4];
          factors(f, a.dropout, static_cast<uint32_t>(c / 4), static_cast<uint32_t>(a.first_token + r % a.tokens),
                  sample);
          int i = 0;
          columns(smaller(a.cols - c, 4 * kLanes),
                  [&](int64_t k, auto w) { store(y + c + k, load(x + c + k, w) * f[i++], w); });
        }
      }
    });
  });
}

}  // namespace fp::cpu::FP_ISA
