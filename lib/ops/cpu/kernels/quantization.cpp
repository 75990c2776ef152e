// Quantized blocks (ops/block_format.h). The results have the same bits on every instruction set, so no product is
// contracted with a sum.
#include "ops/cpu/kernels/dispatch.h"
#include "ops/cpu/kernels/table.h"

namespace fp::cpu::FP_ISA {
namespace {

typedef int8_t Codes __attribute__((vector_size(kLanes)));
typedef uint8_t Bytes __attribute__((vector_size(kLanes)));

constexpr float kWholeNumbers = 12582912.0f;  // 1.5 * 2^23: from here on floats are whole numbers

// Loads or stores the bytes of a vector, or of its first n lanes.
template <class V, class T>
FP_INLINE void load_lanes(V& v, const T* p, Full) {
  memcpy(&v, p, sizeof v);
}
template <class V, class T>
FP_INLINE void load_lanes(V& v, const T* p, Part t) {
  T lanes[kLanes] = {};
  for (int i = 0; i < t.n; ++i) lanes[i] = p[i];
  memcpy(&v, lanes, sizeof v);
}
template <class V, class T>
FP_INLINE void store_lanes(T* p, const V& v, Full) {
  memcpy(static_cast<void*>(p), &v, sizeof v);
}
template <class V, class T>
FP_INLINE void store_lanes(T* p, const V& v, Part t) {
  T lanes[kLanes];
  memcpy(static_cast<void*>(lanes), &v, sizeof v);
  for (int i = 0; i < t.n; ++i) p[i] = lanes[i];
}

// a * b, rounded: the compiler cannot contract it with a sum.
FP_INLINE Vf product(Vf a, Vf b) {
  Vf p = a * b;
#ifdef __x86_64__
  __asm__("" : "+x"(p));
#else
  __asm__("" : "+w"(p));
#endif
  return p;
}

// Calls f(i, first, second, bytes) for every 2 * kLanes of n elements: how much there is of two vectors, and of one
// with two elements in each lane.
template <class F>
FP_INLINE void pairs_of_columns(int64_t n, F&& f) {
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) f(i, Full{}, Full{}, Full{});
  const auto rest = static_cast<int>(n - i), first = rest < kLanes ? rest : kLanes;
  if (rest > 0) f(i, Part{first}, Part{rest - first}, Part{(rest + 1) / 2});
}

// Returns x / scale rounded to the nearest code, ties to even.
FP_INLINE Vi codes_of(Vf x, Vf scale, Vf limit) {
  const Vf q = x / scale, low = q < -limit ? -limit : q, clamped = low > limit ? limit : low;
  return reinterpret_cast<Vi>(as_bits(clamped + kWholeNumbers) - as_bits(splat(kWholeNumbers)));
}

// Returns the largest magnitude, as bits: infinities and NaN are above all numbers.
FP_INLINE int32_t largest_bits(const float* x, int64_t n) {
  Vi most{};
  columns(n, [&](int64_t i, auto w) {
    const Vi bits = reinterpret_cast<Vi>(magnitude_of(load(x + i, w)));
    most = bits > most ? bits : most;
  });
  int32_t largest = 0;
  for (int i = 0; i < kLanes; ++i) largest = most[i] > largest ? most[i] : largest;
  return largest;
}

template <class W>
FP_INLINE void store_exactly(float* p, Vf x, W w) {
  store(p, x, w);
}
template <class W>
FP_INLINE void store_exactly(bf16* p, Vf x, W w) {
  store_lanes(p, __builtin_convertvector(round_bf16_bits_exactly(x), Vh), w);
}

template <class X, class Base>
FP_INLINE void differences(float* y, const X* x, const Base* base, int64_t n) {
  columns(n, [&](int64_t i, auto w) { store(y + i, load(x + i, w) - load(base + i, w), w); });
}

template <class X>
FP_INLINE void load_row(const LoadBlockArgs& a, const X* x) {
  if (a.base == nullptr)
    columns(a.count, [&](int64_t i, auto w) { store(a.y + i, load(x + i, w), w); });
  else if (a.base_bf16)
    differences(a.y, x, static_cast<const bf16*>(a.base), a.count);
  else
    differences(a.y, x, static_cast<const float*>(a.base), a.count);
}

}  // namespace

void load_block(const LoadBlockArgs& a) {
  with_type(a.bf16, [&](auto t) { load_row(a, static_cast<const decltype(t)*>(a.x)); });
}

void quantize_block(float* scale, uint8_t* codes, const float* x, int64_t n, int bits) {
  const int32_t largest = largest_bits(x, n);
  const float limit = bits == 8 ? 127 : 7;
  float magnitude;
  memcpy(&magnitude, &largest, sizeof magnitude);
  *scale = largest < 0x7f800000 ? magnitude / limit : __builtin_nanf("");
  if (!(*scale > 0)) {
    memset(codes, 0, static_cast<size_t>((n * bits + 7) / 8));
    return;
  }
  const Vf s = splat(*scale), most = splat(limit);
  if (bits == 8) {
    columns(n, [&](int64_t i, auto w) {
      store_lanes(codes + i, __builtin_convertvector(codes_of(load(x + i, w), s, most), Codes), w);
    });
    return;
  }
  pairs_of_columns(n, [&](int64_t i, auto first, auto second, auto w) {
    const Vf a = load(x + i, first), b = load(x + i + kLanes, second);
    const Vi low = codes_of(evens(a, b), s, most) & 15, high = codes_of(odds(a, b), s, most) & 15;
    store_lanes(codes + i / 2, __builtin_convertvector(low | high << 4, Bytes), w);
  });
}

void add_block(float* sums, const uint8_t* codes, float scale, int64_t n, int bits) {
  const Vf s = splat(scale);
  const auto add = [&](int64_t i, Vf part, auto w) { store(sums + i, load(sums + i, w) + part, w); };
  if (bits == 8) {
    columns(n, [&](int64_t i, auto w) {
      Codes c;
      load_lanes(c, codes + i, w);
      add(i, product(__builtin_convertvector(c, Vf), s), w);
    });
    return;
  }
  pairs_of_columns(n, [&](int64_t i, auto first, auto second, auto w) {
    Bytes both;
    load_lanes(both, codes + i / 2, w);
    const Vi wide = __builtin_convertvector(both, Vi);
    const Vf even = product(__builtin_convertvector(wide << 28 >> 28, Vf), s),
             odd = product(__builtin_convertvector(wide << 24 >> 28, Vf), s);
    add(i, zip_lo(even, odd), first);
    add(i + kLanes, zip_hi(even, odd), second);
  });
}

void store_block(const StoreBlockArgs& a) {
  with_type(a.bf16, [&](auto t) {
    auto* const y = static_cast<decltype(t)*>(a.y);
    columns(a.count, [&](int64_t i, auto w) {
      const Vf x = product(load(a.x + i, w), splat(a.factor));
      store_exactly(y + i, a.add ? load(y + i, w) + x : x, w);
    });
  });
}

}  // namespace fp::cpu::FP_ISA
