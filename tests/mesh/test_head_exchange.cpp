// HeadExchange element by element: the data are a known function of (sample, token, column), so the value of every
// element of a core is known, and the way back must restore the rows.
#include <catch2/catch.hpp>

#include "comm/backends.h"
#include "model/groups.h"
#include "model/head_exchange.h"
#include "ops/backends.h"
#include "sharding/head_split.h"

using namespace fp;

namespace {

// Small integers, whose sums are exact in f32.
float value(int64_t sample, int64_t token, int64_t column) {
  return static_cast<float>((sample * 31 + token) * 257 + column + 1);
}

struct Exchange {
  HeadLayout all;
  int64_t samples, tokens;  // per rank
};

// Rows [B, T/P, columns] of one rank.
ArenaTensor rows_of(Arena& arena, const Exchange& x, int64_t columns, int rank) {
  ArenaTensor t = arena.alloc(DType::f32, {x.samples * x.tokens, columns});
  for (int64_t b = 0; b < x.samples; ++b)
    for (int64_t s = 0; s < x.tokens; ++s)
      for (int64_t c = 0; c < columns; ++c)
        t->ptr<float>()[(b * x.tokens + s) * columns + c] = value(b, rank * x.tokens + s, c);
  return t;
}

int64_t wrong_in_core(const Tensor& core, const HeadExchange& e, const Exchange& x, int ranks, int rank) {
  const HeadRanges share = split_heads(x.all.heads, x.all.kv_heads, ranks, rank);
  const HeadLayout& mine = e.core();
  int64_t wrong = 0;
  const auto compare = [&](int64_t local, int64_t global) {
    for (int64_t b = 0; b < x.samples; ++b)
      for (int64_t s = 0; s < x.tokens * ranks; ++s)
        for (int64_t i = 0; i < mine.head_dim; ++i)
          wrong +=
              core.ptr<float>()[(b * x.tokens * ranks + s) * mine.columns() + local + i] != value(b, s, global + i);
  };
  for (int64_t h = 0; h < mine.heads; ++h) compare(mine.q_column(h), x.all.q_column(share.heads.first + h));
  for (int64_t k = 0; k < mine.kv_heads; ++k) {
    compare(mine.k_column(k), x.all.k_column(share.kv_heads.first + k));
    compare(mine.v_column(k), x.all.v_column(share.kv_heads.first + k));
  }
  return wrong + (mine.heads != share.heads.count) + (mine.kv_heads != share.kv_heads.count);
}

// Counts wrong elements of rows that went to the cores and back: equal to the originals, but keys and values times the
// number of cores that held them.
int64_t wrong_in_rows(const Tensor& back, const Exchange& x, int ranks, int rank) {
  std::vector<int> copies(static_cast<size_t>(x.all.kv_heads));
  for (int r = 0; r < ranks; ++r) {
    const IndexRange kv = split_heads(x.all.heads, x.all.kv_heads, ranks, r).kv_heads;
    for (int64_t k = kv.first; k < kv.first + kv.count; ++k) ++copies[static_cast<size_t>(k)];
  }
  std::vector<float> factor(static_cast<size_t>(x.all.columns()), 1.0f);
  for (int64_t k = 0; k < x.all.kv_heads; ++k)
    for (int64_t i = 0; i < x.all.head_dim; ++i)
      for (const int64_t column : {x.all.k_column(k), x.all.v_column(k)})
        factor[static_cast<size_t>(column + i)] = static_cast<float>(copies[static_cast<size_t>(k)]);
  int64_t wrong = 0;
  for (int64_t row = 0; row < back.shape[0]; ++row)
    for (int64_t c = 0; c < back.shape[1]; ++c)
      wrong += back.ptr<float>()[row * back.shape[1] + c] !=
               factor[static_cast<size_t>(c)] * value(row / x.tokens, rank * x.tokens + row % x.tokens, c);
  return wrong;
}

}  // namespace

TEST_CASE("every element reaches the core of its head and returns", "[mesh]") {
  const int ranks = GENERATE(1, 2, 3, 4);
  const int64_t heads = GENERATE(4, 7, 8), samples = GENERATE(1, 2, 3);
  const bool grouped = GENERATE(false, true);
  for (int64_t kv = 1; kv <= heads; ++kv) {
    if (heads % kv != 0) continue;
    const Exchange x{{heads, kv, 3, grouped}, samples, 5};
    CAPTURE(ranks, heads, kv, samples, grouped);
    std::vector<int64_t> wrong(static_cast<size_t>(ranks));
    run_thread_ranks(ranks, [&](World& world) {
      const int rank = world.rank();
      const auto ops = make_cpu_ops();
      Arena arena(ops->allocate(size_t{1} << 20, false), size_t{1} << 20);
      const auto group = world.group("sequence", Mesh(1, 1, ranks, 1, ranks).world());
      const HeadExchange e(x.all, ranks, rank);
      const HeadExchange::Place place{ops.get(), &arena, group.get(),
                                      split_tokens(samples, x.tokens * ranks, {ranks, rank, 1, 0, false}).front()};
      int64_t& bad = wrong[static_cast<size_t>(rank)];
      ArenaTensor core = e.qkv_to_core(place, rows_of(arena, x, x.all.columns(), rank));
      bad += wrong_in_core(core, e, x, ranks, rank);
      const ArenaTensor back = e.qkv_to_rows(place, std::move(core));
      bad += wrong_in_rows(back, x, ranks, rank);
      const int64_t q = heads * x.all.head_dim;
      const ArenaTensor again = e.q_to_rows(place, e.q_to_core(place, rows_of(arena, x, q, rank)));
      for (int64_t i = 0; i < again->elements(); ++i)
        bad += again->ptr<float>()[i] != value(i / q / x.tokens, rank * x.tokens + i / q % x.tokens, i % q);
    });
    for (const int64_t n : wrong) REQUIRE(n == 0);
  }
}

TEST_CASE("more sequence-parallel ranks than heads are refused", "[mesh]") {
  CHECK_THROWS_WITH(HeadExchange({4, 2, 8, false}, 5, 0),
                    Catch::Contains("parallel.sequence = 5") && Catch::Contains("use 1 to 4"));
}
