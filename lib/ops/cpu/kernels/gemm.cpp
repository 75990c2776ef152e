// Matrix products, packed and tiled for registers and caches. c[m,n] = sum over k of a(m,k) b(n,k).
//
// The smaller operand is packed for all threads: b, if it has fewer rows than a, else a. A work item is a part of the
// other, up to kRowPart rows of a or one panel of b, which the thread that multiplies it packs for itself: it stays in
// that core's cache, while the shared operand passes by. Short rows of a are not packed but read where they are. A
// kernel (gemm_lanes.h, gemm_tiles.h) multiplies operands over the whole depth of a block, so no sum depends on
// how the work was divided.
#include "ops/cpu/kernels/gemm_lanes.h"
#include "ops/cpu/kernels/gemm_tiles.h"
#include "ops/cpu/kernels/table.h"

namespace fp::cpu::FP_ISA {
namespace {

constexpr int64_t kRowPart = 128, kLeastRowPart = 64;  // rows of a in a work item, at most and at least

// The kernel for operands of storage type T.
template <class T>
struct KernelOf {
  using type = LaneKernel<typename UnitOf<T>::type>;
};
#ifdef FP_AMX_TILES
template <>
struct KernelOf<bf16> {
  using type = TileKernel;
};
#endif

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

// Returns the rows of a work item with which `threads` threads finish `rows` rows first, if panels are not divided.
int64_t row_part(int64_t rows, int64_t threads) {
  int64_t best = kRowPart, least = INT64_MAX;
  for (int64_t part = kRowPart; part >= kLeastRowPart; part -= 2 * kLanes) {
    const int64_t time = blocks_of(blocks_of(rows, part), threads) * part;
    if (time >= least) continue;
    best = part;
    least = time;
  }
  return best;
}

template <class Kernel>
Plan cut(const GemmArgs& g, Cutter& cutter) {
  Plan p{};
  const int64_t k_words = words<typename Kernel::Unit>(g.k);
  const bool has_sums = g.c_bf16 && k_words > Kernel::kDepth;
  p.depth = equal_part(k_words, Kernel::kDepth, Kernel::kDepthGrain);
  const int64_t shared_rows = Kernel::shared_rows(p.depth);
  p.shares_b = g.n < g.m && g.n <= shared_rows;
  p.row_block = p.shares_b && !has_sums ? g.m : equal_part(g.m, shared_rows, kLanes);
  p.shared = cutter.take<Word>((p.shares_b ? round_up(g.n, Kernel::kColumns) : p.row_block) * p.depth);
  p.own_words = round_up((p.shares_b ? kRowPart : Kernel::kColumns) * p.depth, 16);
  p.own = cutter.take<Word>(p.own_words * g.threads);
  float* const sums = cutter.take<float>(has_sums ? p.row_block * g.n : 0);
  p.sums = has_sums ? sums : nullptr;
  float* const bias = cutter.take<float>(g.bias == nullptr ? 0 : g.n);
  p.bias = g.bias == nullptr ? nullptr : bias;
  return p;
}

// Words [word, word + depth) of k, padded as the kernel needs them, and rows [first, first + rows) of a and c.
struct GemmBlock {
  int64_t first, rows, word, depth;
};

// Computes the tiles of rows [begin, end) of a block in one panel from their packed operands. `next_b`: see PanelRows.
template <class Kernel>
void multiply_panel(const GemmArgs& g, const GemmBlock& at, const Destination& d, const Rows& a, const Word* b,
                    const Word* next_b, int64_t begin, int64_t end, int64_t column) {
  // Of a symmetric product, the rows down to the diagonal.
  const int64_t needed = g.symmetric ? smaller(end, column + Kernel::kColumns - at.first) : end;
  Kernel::multiply(a, b, at.depth, d, {begin, end, needed, column, g.n - column, next_b});
}

// Returns whether the kernel is to read `rows` rows of a where they are stored. Rows that are long would evict each
// other from the caches before all panels of b have passed by.
template <class Kernel, class T>
bool reads_stored(const Operand<T>& a, int64_t rows) {
  constexpr int64_t kLongest = 512;  // words
  if constexpr (!Kernel::kReadsStored || sizeof(T) * Kernel::Unit::kPerWord != sizeof(Word))
    return false;
  else
    return !a.transposed && a.depth <= kLongest * Kernel::Unit::kPerWord && a.depth % Kernel::Unit::kPerWord == 0 &&
           rows % Kernel::kRows == 0;
}

// Returns the rows of a from `row` on where they are stored, from element k on.
template <class T>
Rows stored_rows(const Operand<T>& a, int64_t row, int64_t k) {
  constexpr int64_t kPerWord = sizeof(Word) / sizeof(T);
  return {reinterpret_cast<const Word*>(a.data + row * a.depth + k), a.depth / kPerWord};
}

template <class Kernel, class T>
void multiply_sharing_b(const GemmArgs& g, const Plan& p, const GemmBlock& at, const Destination& d,
                        const Operand<T>& a, const Operand<T>& b) {
  using Unit = typename Kernel::Unit;
  constexpr int64_t kColumns = Kernel::kColumns;
  const int64_t k = at.word * Unit::kPerWord, panels = blocks_of(g.n, kColumns);
  const auto panel = [&](int64_t i) { return p.shared + i * kColumns * at.depth; };
  pack_shared<Unit, typename Kernel::ColumnPanels>(p.shared, b, 0, panels, k, at.depth);
  // With many threads and few rows the panels are divided, too, in parts large enough to pay for packing the rows.
  const int64_t part_rows = row_part(at.rows, g.threads), row_parts = blocks_of(at.rows, part_rows);
  const int64_t parts = larger(1, smaller(blocks_of(2 * g.threads, row_parts), panels / 4));
  parallel_each(row_parts * parts, [&](int64_t item, int thread) {
    Word* packed = p.own + thread * p.own_words;
    const int64_t begin = item / parts * part_rows, end = smaller(begin + part_rows, at.rows), part = item % parts;
    const bool stored = reads_stored<Kernel>(a, end - begin);
    const Rows rows = stored ? stored_rows(a, at.first + begin, k) : Rows{packed, 0};
    if (!stored)
      Kernel::RowPanels::template pack<Unit>(packed, a, at.first + begin, blocks_of(end - begin, kLanes),
                                             {k, at.depth, 0, at.depth});
    const typename Kernel::Session session;
    const int64_t first = panels * part / parts, last = panels * (part + 1) / parts - 1;
    for (int64_t i = first; i <= last; ++i)
      multiply_panel<Kernel>(g, at, d, rows, panel(i), panel(i + 1 < panels ? i + 1 : 0), begin, end, i * kColumns);
  });
}

template <class Kernel, class T>
void multiply_sharing_a(const GemmArgs& g, const Plan& p, const GemmBlock& at, const Destination& d,
                        const Operand<T>& a, const Operand<T>& b) {
  using Unit = typename Kernel::Unit;
  constexpr int64_t kColumns = Kernel::kColumns;
  const int64_t k = at.word * Unit::kPerWord;
  const bool stored = reads_stored<Kernel>(a, at.rows);
  if (!stored)
    pack_shared<Unit, typename Kernel::RowPanels>(p.shared, a, at.first, blocks_of(at.rows, kLanes), k, at.depth);
  // With many threads and few panels the rows are divided, too, in parts large enough to pay for packing the panel.
  const int64_t panels = blocks_of(g.n, kColumns);
  const int64_t parts = smaller(blocks_of(2 * g.threads, panels), blocks_of(at.rows, kRowPart));
  const int64_t part_rows = round_up(blocks_of(at.rows, parts), kLanes);
  parallel_each(panels * parts, [&](int64_t item, int thread) {
    Word* packed = p.own + thread * p.own_words;
    // From the last panel on, which of a symmetric product is the longest.
    const int64_t column = (panels - 1 - item / parts) * kColumns, begin = item % parts * part_rows;
    Kernel::ColumnPanels::template pack<Unit>(packed, b, column, 1, {k, at.depth, 0, at.depth});
    const typename Kernel::Session session;
    const Rows rows = stored ? stored_rows(a, at.first + begin, k) : Rows{p.shared + begin * at.depth, 0};
    multiply_panel<Kernel>(g, at, d, rows, packed, nullptr, begin, smaller(begin + part_rows, at.rows), column);
  });
}

// Adds the products of a block to c.
template <class Kernel, class T>
void multiply_block(const GemmArgs& g, const Plan& p, const GemmBlock& at) {
  const Operand<T> a{static_cast<const T*>(g.a), g.a_transposed, g.m, g.k},
      b{static_cast<const T*>(g.b), g.b_transposed, g.n, g.k};
  const bool last = at.word + at.depth >= words<typename Kernel::Unit>(g.k);
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
    multiply_sharing_b<Kernel>(g, p, at, d, a, b);
  else
    multiply_sharing_a<Kernel>(g, p, at, d, a, b);
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
  using Kernel = typename KernelOf<T>::type;
  Cutter cutter{g.scratch};
  const Plan p = cut<Kernel>(g, cutter);
  const int64_t k_words = words<typename Kernel::Unit>(g.k);
  if (p.bias != nullptr)
    columns(g.n, [&](int64_t c, auto part) { store(p.bias + c, load(static_cast<const T*>(g.bias) + c, part), part); });
  for (int64_t first = 0; first < g.m; first += p.row_block)
    for (int64_t word = 0; word < k_words; word += p.depth)
      multiply_block<Kernel, T>(g, p,
                                {first, smaller(p.row_block, g.m - first), word,
                                 smaller(p.depth, round_up(k_words - word, Kernel::kDepthGrain))});
  if (!g.symmetric) return;
  with_type(g.c_bf16, [&](auto t) { mirror(static_cast<decltype(t)*>(g.c), g.n); });
}

template <class T>
size_t scratch_of_gemm(const GemmArgs& g) {
  Cutter cutter{nullptr};
  cut<typename KernelOf<T>::type>(g, cutter);
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
