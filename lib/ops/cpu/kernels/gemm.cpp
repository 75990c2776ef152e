// Matrix products, packed and tiled for registers and caches. c[m,n] = sum over k of a(m,k) b(n,k).
//
// The smaller operand is packed for all threads: b, if it has fewer rows than a, else a. A work item is a part of the
// other, kRowPart rows of a or one panel of kColumns rows of b, which the thread that multiplies it packs for
// itself: it stays in that core's cache, while the shared operand passes by. a is packed in stripes of kLanes rows
// [k][kLanes], b in panels [k][kColumns]. A tile of c stays in registers over the whole depth (at most kDepth words),
// so no sum depends on how the work was divided.
#include "ops/cpu/kernels/dispatch.h"
#include "ops/cpu/kernels/table.h"
#include "ops/cpu/kernels/units.h"

namespace fp::cpu::FP_ISA {
namespace {

constexpr int kPanel = 3;                    // vectors of a panel
constexpr int kRows = kLanes == 16 ? 8 : 4;  // rows of a tile
constexpr int64_t kColumns = kPanel * kLanes;
constexpr int64_t kDepth = 1024;                        // words of k at a time, at most
constexpr int64_t kShared = kLanes == 8 ? 1024 : 2048;  // rows of the shared operand packed at a time, at most
constexpr int64_t kRowPart = 128;                       // rows of a in a work item
constexpr int64_t kWordPart = 32;                       // words of k of a transposed operand packed together
constexpr int64_t kGathered = 256;                      // words of a row gathered before they are transposed
constexpr int64_t kRowsAhead = 8;                       // words of k that packing fetches ahead
constexpr int64_t kTileAhead = 32;                      // words of k that a tile fetches of a ahead

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

// Part of the words of k of a block: [begin, end) of `depth`, which start at element `k` of the operands.
struct DepthPart {
  int64_t k, depth, begin, end;
};

// Packs a transposed operand in the same way: `panels` panels of kWidth rows each, one after the other in dst.
template <class Unit, int kWidth, class T>
void pack_columns_of(Word* dst, const Operand<T>& o, int64_t row, int64_t panels, const DepthPart& at) {
  for (int64_t w = at.begin; w < at.end; ++w) {
    const int64_t first = at.k + w * Unit::kPerWord;
    const T* src = o.data + first * o.rows + row;
    const T* second = first + 1 < o.depth ? src + o.rows : nullptr;
    // Each row is elsewhere in memory and short: the hardware does not fetch the next ones by itself.
    for (int i = 0; i < Unit::kPerWord; ++i)
      for (int64_t line = 0; line < panels * kWidth; line += 64 / static_cast<int64_t>(sizeof(T)))
        __builtin_prefetch(src + (kRowsAhead * Unit::kPerWord + i) * o.rows + line);
    for (int64_t p = 0; p < panels; ++p) {
      Word* words = dst + (p * at.depth + w) * kWidth;
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

// Packs panels of kWidth rows from `row` on, each [depth][kWidth].
template <class Unit, int kWidth, class T>
void pack(Word* dst, const Operand<T>& o, int64_t row, int64_t panels, int64_t k, int64_t depth) {
  if (o.transposed) return pack_columns_of<Unit, kWidth>(dst, o, row, panels, {k, depth, 0, depth});
  for (int64_t p = 0; p < panels; ++p)
    pack_rows_of<Unit>(dst + p * depth * kWidth, kWidth, o, row + p * kWidth, kWidth, k, depth);
}

// Packs the same panels on all threads, each of which reads what is contiguous in memory.
template <class Unit, int kWidth, class T>
void pack_shared(Word* dst, const Operand<T>& o, int64_t row, int64_t panels, int64_t k, int64_t depth) {
  if (o.transposed)
    return parallel_each(blocks_of(depth, kWordPart), [&](int64_t i, int) {
      pack_columns_of<Unit, kWidth>(dst, o, row, panels,
                                    {k, depth, i * kWordPart, smaller((i + 1) * kWordPart, depth)});
    });
  parallel_each(
      panels, [&](int64_t p, int) { pack<Unit, kWidth>(dst + p * depth * kWidth, o, row + p * kWidth, 1, k, depth); });
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
    if constexpr (kLanes == 16) __builtin_prefetch(a + (k + kTileAhead) * kLanes);  // a line of memory
#pragma GCC unroll 4
    for (int v = 0; v < kPanel; ++v) bv[v] = load_words(b + k * kColumns + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < kPanel; ++v) c[i][v] = Unit::mac(c[i][v], a + k * kLanes + i, bv[v]);
  }
}

// Fetches a tile of the destination into the cache, so that it is there when the sums are complete.
FP_INLINE void prefetch_tile(const Destination& d, int64_t row, int64_t column) {
  if (d.rounded == nullptr || d.add)
    for (int i = 0; i < kRows; ++i)
      for (int64_t at = 0; at < kColumns; at += 16) __builtin_prefetch(d.sums + (row + i) * d.ld_sums + column + at, 1);
  if (d.rounded != nullptr)
    for (int i = 0; i < kRows; ++i)
      for (int64_t at = 0; at < kColumns; at += 32) __builtin_prefetch(d.rounded + (row + i) * d.ld + column + at, 1);
}

template <class Lanes>
FP_INLINE void finish(const Destination& d, int64_t row, int64_t column, Vf x, Lanes part) {
  if (d.bias != nullptr) x += load(d.bias + column, part);
  float* sums = d.sums == nullptr ? nullptr : d.sums + row * d.ld_sums + column;
  if (d.add) x += load(sums, part);
  if (d.rounded != nullptr)
    store(d.rounded + row * d.ld + column, x, part);
  else
    store(sums, x, part);
}

template <class Unit>
void multiply_tile(const Word* a, const Word* b, int64_t depth, const Destination& d, int64_t row, int64_t column,
                   int64_t rows, int64_t cols) {
  const bool whole = rows >= kRows && cols >= kColumns;
  if (whole) prefetch_tile(d, row, column);
  Vf c[kRows][kPanel];
  tile_sums<Unit>(c, a, b, depth);
  if (whole) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < kPanel; ++v) finish(d, row + i, column + v * kLanes, c[i][v], Full{});
    return;
  }
  Vf sums[kRows][kPanel];  // in memory, so that `c`, whose indexes are all constants, stays in registers
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < kPanel; ++v) sums[i][v] = c[i][v];
  for (int i = 0; i < smaller(kRows, rows); ++i)
    for (int v = 0; v * kLanes < smaller(kColumns, cols); ++v) {
      if (cols - v * kLanes >= kLanes)
        finish(d, row + i, column + v * kLanes, sums[i][v], Full{});
      else
        finish(d, row + i, column + v * kLanes, sums[i][v], Part{static_cast<int>(cols - v * kLanes)});
    }
}

struct Plan {
  bool shares_b;             // b is packed for all threads; otherwise a is
  int64_t depth, row_block;  // words of k and rows of a at a time
  Word* shared;
  Word* own;  // a work item's part of the other operand, of thread 0; that of the next thread is own_words further
  int64_t own_words;
  float* sums;  // running sums of a bf16 destination when k is processed in several pieces; otherwise null
  float* bias;  // in f32; null: none
};

// Returns the size of as few equal parts of n as have at most `most` elements, rounded up to a multiple of `grain`.
int64_t equal_part(int64_t n, int64_t most, int64_t grain) {
  return round_up(blocks_of(n, larger(1, blocks_of(n, most))), grain);
}

template <class Unit>
Plan cut(const GemmArgs& g, Cutter& cutter) {
  Plan p{};
  const int64_t k_words = words<Unit>(g.k);
  const bool has_sums = g.c_bf16 && k_words > kDepth;
  p.depth = equal_part(k_words, kDepth, 1);
  p.shares_b = g.n < g.m && g.n <= kShared;
  p.row_block = p.shares_b && !has_sums ? g.m : equal_part(g.m, kShared, kLanes);
  p.shared = cutter.take<Word>((p.shares_b ? round_up(g.n, kColumns) : p.row_block) * p.depth);
  p.own_words = round_up((p.shares_b ? kRowPart : kColumns) * p.depth, 16);
  p.own = cutter.take<Word>(p.own_words * g.threads);
  float* const sums = cutter.take<float>(has_sums ? p.row_block * g.n : 0);
  p.sums = has_sums ? sums : nullptr;
  float* const bias = cutter.take<float>(g.bias == nullptr ? 0 : g.n);
  p.bias = g.bias == nullptr ? nullptr : bias;
  return p;
}

// Words [word, word + depth) of k, and rows [first, first + rows) of a and c.
struct GemmBlock {
  int64_t first, rows, word, depth;
};

// Computes the tiles of rows [begin, end) of a block in one panel from their packed operands.
template <class Unit>
void multiply_panel(const GemmArgs& g, const GemmBlock& at, const Destination& d, const Word* a, const Word* b,
                    int64_t begin, int64_t end, int64_t column) {
  // Of a symmetric product, the rows down to the diagonal.
  const int64_t stop = g.symmetric ? smaller(end, column + kColumns - at.first) : end;
  for (int64_t r = begin; r < stop; r += kRows)
    multiply_tile<Unit>(a + (r - begin) / kLanes * kLanes * at.depth + (r - begin) % kLanes, b, at.depth, d, r, column,
                        at.rows - r, g.n - column);
}

template <class Unit, class T>
void multiply_sharing_b(const GemmArgs& g, const Plan& p, const GemmBlock& at, const Destination& d,
                        const Operand<T>& a, const Operand<T>& b) {
  const int64_t k = at.word * Unit::kPerWord, panels = blocks_of(g.n, kColumns);
  const auto panel = [&](int64_t i) { return p.shared + i * kColumns * at.depth; };
  pack_shared<Unit, kColumns>(p.shared, b, 0, panels, k, at.depth);
  // With many threads and few rows the panels are divided, too, in parts large enough to pay for packing the rows.
  const int64_t row_parts = blocks_of(at.rows, kRowPart);
  const int64_t parts = larger(1, smaller(blocks_of(2 * g.threads, row_parts), panels / 4));
  parallel_each(row_parts * parts, [&](int64_t item, int thread) {
    Word* packed = p.own + thread * p.own_words;
    const int64_t begin = item / parts * kRowPart, end = smaller(begin + kRowPart, at.rows), part = item % parts;
    pack<Unit, kLanes>(packed, a, at.first + begin, blocks_of(end - begin, kLanes), k, at.depth);
    for (int64_t i = panels * part / parts; i < panels * (part + 1) / parts; ++i)
      multiply_panel<Unit>(g, at, d, packed, panel(i), begin, end, i * kColumns);
  });
}

template <class Unit, class T>
void multiply_sharing_a(const GemmArgs& g, const Plan& p, const GemmBlock& at, const Destination& d,
                        const Operand<T>& a, const Operand<T>& b) {
  const int64_t k = at.word * Unit::kPerWord;
  pack_shared<Unit, kLanes>(p.shared, a, at.first, blocks_of(at.rows, kLanes), k, at.depth);
  // With many threads and few panels the rows are divided, too, in parts large enough to pay for packing the panel.
  const int64_t panels = blocks_of(g.n, kColumns);
  const int64_t parts = smaller(blocks_of(2 * g.threads, panels), blocks_of(at.rows, kRowPart));
  const int64_t part_rows = round_up(blocks_of(at.rows, parts), kLanes);
  parallel_each(panels * parts, [&](int64_t item, int thread) {
    Word* packed = p.own + thread * p.own_words;
    // From the last panel on, which of a symmetric product is the longest.
    const int64_t column = (panels - 1 - item / parts) * kColumns, begin = item % parts * part_rows;
    pack<Unit, kColumns>(packed, b, column, 1, k, at.depth);
    multiply_panel<Unit>(g, at, d, p.shared + begin * at.depth, packed, begin, smaller(begin + part_rows, at.rows),
                         column);
  });
}

// Adds the products of a block to c.
template <class Unit, class T>
void multiply_block(const GemmArgs& g, const Plan& p, const GemmBlock& at) {
  const Operand<T> a{static_cast<const T*>(g.a), g.a_transposed, g.m, g.k},
      b{static_cast<const T*>(g.b), g.b_transposed, g.n, g.k};
  const bool last = at.word + at.depth >= words<Unit>(g.k);
  Destination d{};
  d.bias = last ? p.bias : nullptr;
  d.add = at.word > 0 || g.add;
  if (g.c_bf16) {
    d.sums = p.sums;
    d.ld_sums = d.ld = g.n;
    d.rounded = last ? static_cast<bf16*>(g.c) + at.first * g.n : nullptr;
  } else {
    d.sums = static_cast<float*>(g.c) + at.first * g.n;
    d.ld_sums = g.n;
  }
  if (p.shares_b)
    multiply_sharing_b<Unit>(g, p, at, d, a, b);
  else
    multiply_sharing_a<Unit>(g, p, at, d, a, b);
}

// Copies what is above the diagonal of c[n,n] below it.
template <class T>
void mirror(T* c, int64_t n) {
  const int64_t blocks = blocks_of(n, kLanes);
  parallel_each(blocks, [&](int64_t i, int) {
    const int64_t row = (blocks - 1 - i) * kLanes;
    for (int64_t column = 0; column < row; column += kLanes)
      transpose_block(c + row * n + column, n, c + column * n + row, n, kLanes, smaller(kLanes, n - row));
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
      multiply_block<Unit, T>(
          g, p, {first, smaller(p.row_block, g.m - first), word, smaller(p.depth, words<Unit>(g.k) - word)});
  if (!g.symmetric) return;
  with_type(g.c_bf16, [&](auto t) { mirror(static_cast<decltype(t)*>(g.c), g.n); });
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
