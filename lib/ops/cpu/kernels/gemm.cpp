// Matrix products, packed and tiled for registers and caches. c[m,n] = sum over k of a(m,k) b(n,k).
//
// a is packed for all threads in blocks of kLanes rows [k][kLanes]. A work item is one panel of kLanes * kPanel columns
// of b, packed [k][columns] by the thread that multiplies it with every row. A tile of c stays in registers over the
// whole depth (at most kDepth words), so no sum depends on how the work was divided.
#include "ops/cpu/kernels/dispatch.h"
#include "ops/cpu/kernels/table.h"
#include "ops/cpu/kernels/units.h"

namespace fp::cpu::FP_ISA {
namespace {

constexpr int kPanel = kLanes == 16 ? 3 : 2;  // vectors of a panel
constexpr int kRows = kLanes == 16 ? 8 : 4;   // rows of a tile
constexpr int64_t kColumns = kPanel * kLanes;
constexpr int64_t kDepth = kLanes == 8 ? 1024 : 2048;     // words of k at a time, at most
constexpr int64_t kRowBlock = kLanes == 8 ? 1024 : 2048;  // rows of a packed at a time, at most
constexpr int64_t kRowPart = 128;                         // fewest rows of a work item
constexpr int64_t kStripes = 16;                          // blocks of kLanes rows that are packed together
constexpr int64_t kGathered = 256;                        // words of a row gathered before they are transposed

// An operand with elements (row, k), where row is the free and k the summed index.
template <class T>
struct Operand {
  const T* data;
  bool transposed;  // stored [k][rows]
  int64_t rows, depth;
};

// Packs words [0, count) of rows [row, row + width), transposed, into dst[word * ld + i]. Rows beyond the last are 0.
template <class Unit, class T>
void pack_rows_of(Word* dst, int64_t ld, const Operand<T>& o, int64_t row, int64_t width, int64_t k, int64_t count) {
  constexpr bool kStoredAsWords = sizeof(T) * Unit::kPerWord == sizeof(Word);
  Word gathered[kLanes * kGathered];
  for (int64_t i = 0; i < width; i += kLanes) {
    const int64_t live = larger(0, smaller(kLanes, o.rows - row - i));
    const T* src = o.data + (row + i) * o.depth + k;
    if (kStoredAsWords && live == kLanes && o.depth % Unit::kPerWord == 0) {
      transpose(dst + i, ld, reinterpret_cast<const Word*>(src), o.depth / Unit::kPerWord, kLanes, count);
      continue;
    }
    for (int64_t w = 0; w < count; w += kGathered) {
      const int64_t first = w * Unit::kPerWord, n = smaller(kGathered, count - w);
      for (int64_t r = 0; r < kLanes; ++r) {
        if (r < live)
          pack_row<Unit>(gathered + r * kGathered, src + r * o.depth + first,
                         smaller(n * Unit::kPerWord, o.depth - k - first));
        else
          memset(gathered + r * kGathered, 0, static_cast<size_t>(n) * sizeof(Word));
      }
      transpose(dst + w * ld + i, ld, gathered, kGathered, kLanes, n);
    }
  }
}

// Packs a transposed operand in the same way: `panels` panels of kWidth rows each, one after the other in dst.
template <class Unit, int kWidth, class T>
void pack_columns_of(Word* dst, const Operand<T>& o, int64_t row, int64_t panels, int64_t k, int64_t count) {
  for (int64_t w = 0; w < count; ++w) {
    const int64_t first = k + w * Unit::kPerWord;
    const T* src = o.data + first * o.rows + row;
    const T* second = first + 1 < o.depth ? src + o.rows : nullptr;
    for (int64_t p = 0; p < panels; ++p) {
      Word* words = dst + (p * count + w) * kWidth;
      const int64_t live = o.rows - row - p * kWidth;
      if (live >= kWidth && second != nullptr) {
        pack_across<Unit>(words, src + p * kWidth, second + p * kWidth, kWidth);
        continue;
      }
      for (int i = 0; i < kWidth; ++i) words[i] = 0;
      pack_across<Unit>(words, src + p * kWidth, second == nullptr ? nullptr : second + p * kWidth,
                        smaller(live, kWidth));
    }
  }
}

// Packs panels of kWidth rows from `row` on, each [count][kWidth].
template <class Unit, int kWidth, class T>
void pack(Word* dst, const Operand<T>& o, int64_t row, int64_t panels, int64_t k, int64_t count) {
  if (o.transposed) return pack_columns_of<Unit, kWidth>(dst, o, row, panels, k, count);
  for (int64_t p = 0; p < panels; ++p)
    pack_rows_of<Unit>(dst + p * count * kWidth, kWidth, o, row + p * kWidth, kWidth, k, count);
}

// Destination of a tile and what is added to it.
struct Destination {
  float* sums;  // f32 destination or running sums; null: bf16 only
  int64_t ld_sums;
  bool add;       // add to sums instead of overwriting them
  bf16* rounded;  // bf16 destination, once the sums are complete; null: none
  int64_t ld;
  const float* bias;  // null: none
};

template <class Unit>
FP_INLINE void tile_sums(Vf (&c)[kRows][kPanel], const Word* a, const Word* b, int64_t depth) {
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < kPanel; ++v) c[i][v] = Vf{};
  for (int64_t k = 0; k < depth; ++k) {
    Vu bv[kPanel];
#pragma GCC unroll 4
    for (int v = 0; v < kPanel; ++v) bv[v] = load_words(b + k * kColumns + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < kPanel; ++v) c[i][v] = Unit::mac(c[i][v], a + k * kLanes + i, bv[v]);
  }
}

template <class Unit>
void multiply_tile(const Word* a, const Word* b, int64_t depth, const Destination& d, int64_t row, int64_t column,
                   int64_t rows, int64_t cols) {
  if (d.add)
    for (int i = 0; i < smaller(kRows, rows); ++i)
      for (int64_t at = 0; at < smaller(kColumns, cols); at += 16)
        __builtin_prefetch(d.sums + (row + i) * d.ld_sums + column + at, 1);
  Vf c[kRows][kPanel];
  tile_sums<Unit>(c, a, b, depth);
  const auto finish = [&](int i, int v, auto part) {
    const int64_t at = column + v * kLanes;
    Vf x = c[i][v];
    if (d.bias != nullptr) x += load(d.bias + at, part);
    float* sums = d.sums == nullptr ? nullptr : d.sums + (row + i) * d.ld_sums + at;
    if (d.add) x += load(sums, part);
    if (d.rounded != nullptr)
      store(d.rounded + (row + i) * d.ld + at, x, part);
    else
      store(sums, x, part);
  };
  if (rows >= kRows && cols >= kColumns) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < kPanel; ++v) finish(i, v, Full{});
    return;
  }
  for (int i = 0; i < smaller(kRows, rows); ++i)
    for (int v = 0; v * kLanes < smaller(kColumns, cols); ++v) {
      if (cols - v * kLanes >= kLanes)
        finish(i, v, Full{});
      else
        finish(i, v, Part{static_cast<int>(cols - v * kLanes)});
    }
}

struct Plan {
  int64_t depth, row_block;  // words of k and rows of a at a time
  Word* a;
  Word* b;  // packed panel of thread 0; that of the next thread is b_words further
  int64_t b_words;
  float* sums;  // running sums of a bf16 destination when k is processed in several pieces
  float* bias;  // in f32
};

// Returns the size of as few equal parts of n as have at most `most` elements, rounded up to a multiple of `grain`.
int64_t equal_part(int64_t n, int64_t most, int64_t grain) {
  return round_up(blocks_of(n, larger(1, blocks_of(n, most))), grain);
}

template <class Unit>
Plan cut(const GemmArgs& g, Cutter& cutter) {
  Plan p{};
  const int64_t k_words = words<Unit>(g.k);
  p.depth = equal_part(k_words, kDepth, 1);
  p.row_block = equal_part(g.m, kRowBlock, kLanes);
  p.a = cutter.take<Word>(p.row_block * p.depth);
  p.b_words = round_up(kColumns * p.depth, 16);
  p.b = cutter.take<Word>(p.b_words * g.threads);
  const bool pieces = k_words > kDepth;
  p.sums = cutter.take<float>(g.c_bf16 && pieces ? p.row_block * g.n : 0);
  if (!(g.c_bf16 && pieces)) p.sums = nullptr;
  p.bias = cutter.take<float>(g.bias == nullptr ? 0 : g.n);
  if (g.bias == nullptr) p.bias = nullptr;
  return p;
}

// Adds words [word, word + depth) of k to rows [first, first + rows) of c.
template <class Unit, class T>
void multiply_block(const GemmArgs& g, const Plan& p, int64_t first, int64_t rows, int64_t word, int64_t depth) {
  const Operand<T> a{static_cast<const T*>(g.a), g.a_transposed, g.m, g.k},
      b{static_cast<const T*>(g.b), g.b_transposed, g.n, g.k};
  const int64_t k = word * Unit::kPerWord, stripes = blocks_of(rows, kLanes);
  const bool last = word + depth >= words<Unit>(g.k);
  parallel_each(blocks_of(stripes, kStripes), [&](int64_t item, int) {
    const int64_t s = item * kStripes;
    pack<Unit, kLanes>(p.a + s * kLanes * depth, a, first + s * kLanes, smaller(kStripes, stripes - s), k, depth);
  });
  Destination d{};
  d.bias = last ? p.bias : nullptr;
  d.add = word > 0 || g.add;
  if (g.c_bf16) {
    d.sums = p.sums;
    d.ld_sums = d.ld = g.n;
    d.rounded = last ? static_cast<bf16*>(g.c) + first * g.n : nullptr;
  } else {
    d.sums = static_cast<float*>(g.c) + first * g.n;
    d.ld_sums = g.n;
  }
  // With many threads and few panels the rows are divided, too, in parts large enough to pay for packing the panel.
  const int64_t panels = blocks_of(g.n, kColumns);
  const int64_t parts = smaller(blocks_of(2 * g.threads, panels), blocks_of(rows, kRowPart));
  const int64_t part_rows = round_up(blocks_of(rows, parts), kLanes);
  parallel_each(panels * parts, [&](int64_t item, int thread) {
    Word* packed = p.b + thread * p.b_words;
    const int64_t column = item / parts * kColumns, begin = item % parts * part_rows,
                  end = smaller(begin + part_rows, rows);
    pack<Unit, kColumns>(packed, b, column, 1, k, depth);
    for (int64_t r = begin; r < end; r += kRows)
      multiply_tile<Unit>(p.a + r / kLanes * kLanes * depth + r % kLanes, packed, depth, d, r, column, rows - r,
                          g.n - column);
  });
}

template <class T>
void run_gemm(const GemmArgs& g) {
  using Unit = typename UnitOf<T>::type;
  Cutter cutter{g.scratch};
  const Plan p = cut<Unit>(g, cutter);
  if (p.bias != nullptr)
    columns(g.n, [&](int64_t c, auto part) { store(p.bias + c, load(static_cast<const T*>(g.bias) + c, part), part); });
  for (int64_t first = 0; first < g.m; first += p.row_block)
    for (int64_t word = 0; word < words<Unit>(g.k); word += p.depth)
      multiply_block<Unit, T>(g, p, first, smaller(p.row_block, g.m - first), word,
                              smaller(p.depth, words<Unit>(g.k) - word));
}

template <class T>
size_t scratch_of_gemm(const GemmArgs& g) {
  Cutter cutter{nullptr};
  cut<typename UnitOf<T>::type>(g, cutter);
  return cutter.used;
}

}  // namespace

size_t gemm_scratch(const GemmArgs& g) { return g.bf16 ? scratch_of_gemm<bf16>(g) : scratch_of_gemm<float>(g); }

void gemm(const GemmArgs& g) {
  if (g.bf16)
    run_gemm<bf16>(g);
  else
    run_gemm<float>(g);
}

}  // namespace fp::cpu::FP_ISA
