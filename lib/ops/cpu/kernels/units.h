// Operands of inner products in 32-bit words: one f32, or two bf16 that are neighbours along the summed dimension. With
// both, a multiply-accumulate takes one word of a (the same for all lanes) and a vector of words of b.
#pragma once

#include "ops/cpu/kernels/simd.h"

namespace fp::cpu::FP_ISA {

using Word = uint32_t;

// Words of k that a product's loop handles at once. With 16 registers there are none to spare for a second.
constexpr int kUnroll = kLanes == 16 ? 2 : 1;

struct F32Unit {
  static constexpr int kPerWord = 1;
  static inline __attribute__((always_inline)) Vf mac(Vf acc, const Word* a, Vu b) {
    float x;
    memcpy(&x, a, sizeof x);
    return acc + x * as_float(b);
  }
};

#if defined(__AVX512BF16__) || defined(FP_AMX_TWIN)
struct Bf16Unit {
  static constexpr int kPerWord = 2;
  static inline __attribute__((always_inline)) Vf mac(Vf acc, const Word* a, Vu b) {
    Word word;
    memcpy(&word, a, sizeof word);
    const Vu x = splat_bits(word);
#ifdef __AVX512BF16__
    return reinterpret_cast<Vf>(
        _mm512_dpbf16_ps(reinterpret_cast<__m512>(acc), reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(b)));
#else
    return acc + as_float(x << 16) * as_float(b << 16) + as_float(x & 0xffff0000u) * as_float(b & 0xffff0000u);
#endif
  }
};
using Bf16Storage = Bf16Unit;
#else
using Bf16Storage = F32Unit;  // bf16 operands are widened when they are packed
#endif

// The unit in which operands of storage type T are packed.
template <class T>
struct UnitOf {
  using type = F32Unit;
};
template <>
struct UnitOf<bf16> {
  using type = Bf16Storage;
};

FP_INLINE int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
template <class Unit>
FP_INLINE int64_t words(int64_t n) {
  return (n + Unit::kPerWord - 1) / Unit::kPerWord;
}

FP_INLINE Vu load_words(const Word* p) {
  Vu v;
  memcpy(&v, p, sizeof v);
  return v;
}
FP_INLINE void store_words(Word* p, Vu v) { memcpy(p, &v, sizeof v); }

// Loads the 16-bit patterns of bf16 values, one per word.
FP_INLINE Vu load_halves(const bf16* p, Full) {
  Vh v;
  memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, Vu);
}
FP_INLINE Vu load_halves(const bf16* p, Part t) {
  Vu v{};
  for (int i = 0; i < t.n; ++i) v[i] = p[i].bits;
  return v;
}
FP_INLINE void store_words(Word* p, Vu v, Full) { store_words(p, v); }
FP_INLINE void store_words(Word* p, Vu v, Part t) {
  for (int i = 0; i < t.n; ++i) p[i] = v[i];
}

// Packs one row that is summed along itself into words(n) words.
template <class Unit, class T>
FP_INLINE void pack_row(Word* dst, const T* src, int64_t n) {
  if constexpr (Unit::kPerWord == 2) {
    if (n % 2) dst[n / 2] = 0;
    memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
  } else {
    columns(n, [&](int64_t c, auto w) { store_words(dst + c, as_bits(load(src + c, w)), w); });
  }
}

// Packs kPerWord rows that are summed across into n words. `second` is null when `first` is the last row.
template <class Unit, class T>
FP_INLINE void pack_across(Word* dst, const T* first, const T* second, int64_t n) {
  if constexpr (Unit::kPerWord == 2) {
    columns(n, [&](int64_t c, auto w) {
      const Vu high = second == nullptr ? Vu{} : load_halves(second + c, w);
      store_words(dst + c, load_halves(first + c, w) | high << 16, w);
    });
  } else {
    pack_row<Unit>(dst, first, n);
  }
}

// Stores the words of two rows of results that are next summed across.
template <class Unit>
FP_INLINE void store_across(Word* dst, int64_t ld, Vf first, Vf second) {
#ifdef __AVX512BF16__
  if constexpr (Unit::kPerWord == 2) {
    alignas(64) static constexpr uint16_t kInterleave[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                             21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                             11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i both = reinterpret_cast<__m512i>(
        _mm512_cvtne2ps_pbh(reinterpret_cast<__m512>(second), reinterpret_cast<__m512>(first)));
    store_words(dst, reinterpret_cast<Vu>(_mm512_permutexvar_epi16(_mm512_load_si512(kInterleave), both)));
    return;
  }
#else
  if constexpr (Unit::kPerWord == 2) {
    store_words(dst, round_bf16_bits(first) | round_bf16_bits(second) << 16);
    return;
  }
#endif
  store_words(dst, as_bits(first));
  store_words(dst + ld, as_bits(second));
}

// Stores the words of one row of results, kLanes values, that is next summed along itself.
template <class Unit>
FP_INLINE void store_along(Word* dst, Vf x) {
  if constexpr (Unit::kPerWord == 2) {
    const Vh h = to_bf16(x);
    memcpy(dst, &h, sizeof h);
    return;
  }
  store_words(dst, as_bits(x));
}

// Transposes a square of kLanes x kLanes words, dst[c][r] = src[r][c], in log2(kLanes) rounds of zips.
FP_INLINE void transpose_square(Word* dst, int64_t ldd, const Word* src, int64_t lds) {
  Vu a[kLanes], b[kLanes];
  for (int i = 0; i < kLanes; ++i) a[i] = load_words(src + i * lds);
  for (int width = 1; width < kLanes; width *= 2) {
    for (int i = 0; i < kLanes / 2; ++i) {
      b[2 * i] = zip_lo(a[i], a[i + kLanes / 2]);
      b[2 * i + 1] = zip_hi(a[i], a[i + kLanes / 2]);
    }
    for (int i = 0; i < kLanes; ++i) a[i] = b[i];
  }
  for (int i = 0; i < kLanes; ++i) store_words(dst + i * ldd, a[i]);
}

// Bits of elements in the low bits of words.
FP_INLINE Vu load_element_bits(const float* p, Full w) { return as_bits(load(p, w)); }
FP_INLINE Vu load_element_bits(const float* p, Part w) { return as_bits(load(p, w)); }
FP_INLINE Vu load_element_bits(const bf16* p, Full w) { return load_halves(p, w); }
FP_INLINE Vu load_element_bits(const bf16* p, Part w) { return load_halves(p, w); }
FP_INLINE void store_element_bits(float* p, Vu v, Full w) { store(p, as_float(v), w); }
FP_INLINE void store_element_bits(float* p, Vu v, Part w) { store(p, as_float(v), w); }
FP_INLINE void store_element_bits(bf16* p, Vu v, Full) {
  const Vh h = __builtin_convertvector(v, Vh);
  memcpy(static_cast<void*>(p), &h, sizeof h);
}
FP_INLINE void store_element_bits(bf16* p, Vu v, Part t) {
  for (int i = 0; i < t.n; ++i) p[i].bits = static_cast<uint16_t>(v[i]);
}

// dst[cols][ldd] = transpose of src[rows][lds], bit by bit; rows and cols are at most kLanes.
template <class T>
FP_INLINE void transpose_block(T* dst, int64_t ldd, const T* src, int64_t lds, int64_t rows, int64_t cols) {
  Word block[kLanes * kLanes] = {};
  for (int64_t r = 0; r < rows; ++r)
    columns(cols,
            [&](int64_t c, auto w) { store_words(block + r * kLanes + c, load_element_bits(src + r * lds + c, w)); });
  transpose_square(block, kLanes, block, kLanes);
  for (int64_t c = 0; c < cols; ++c)
    columns(rows,
            [&](int64_t r, auto w) { store_element_bits(dst + c * ldd + r, load_words(block + c * kLanes + r), w); });
}

// Loads a word that may be unaligned: rows start at any element, that is, possibly at half a word.
FP_INLINE Word load_word(const Word* p) {
  Word w;
  memcpy(&w, p, sizeof w);
  return w;
}

// dst[cols][ldd] = transpose of src[rows][lds].
[[maybe_unused]] static void transpose(Word* dst, int64_t ldd, const Word* src, int64_t lds, int64_t rows,
                                       int64_t cols) {
  const int64_t whole_rows = rows / kLanes * kLanes, whole_cols = cols / kLanes * kLanes;
  for (int64_t r = 0; r < whole_rows; r += kLanes)
    for (int64_t c = 0; c < whole_cols; c += kLanes) transpose_square(dst + c * ldd + r, ldd, src + r * lds + c, lds);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = r < whole_rows ? whole_cols : 0; c < cols; ++c) dst[c * ldd + r] = load_word(src + r * lds + c);
}

}  // namespace fp::cpu::FP_ISA
