#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "sharding/mesh.h"
#include "sharding/partition.h"
#include "sharding/tokens.h"

using namespace fp;

TEST_CASE("ranks and coordinates of a mesh are inverse with tensor as the fastest axis", "[sharding]") {
  const Mesh mesh(2, 3, 2, 4, 48);
  for (int r = 0; r < mesh.size(); ++r) CHECK(mesh.rank_of(mesh.at(r)) == r);
  CHECK(mesh.at(1) == Coordinate{0, 0, 0, 1});
  CHECK(mesh.at(4) == Coordinate{0, 0, 1, 0});
  CHECK(mesh.at(8) == Coordinate{0, 1, 0, 0});
  CHECK(mesh.at(24) == Coordinate{1, 0, 0, 0});
  CHECK_THROWS_AS(Mesh(1, 1, 1, 2, 3), ConfigError);
  CHECK_THROWS_AS(Mesh(0, 1, 1, 1, 0), ConfigError);
}

namespace {

// Every row of the cut dimension must be held by exactly `copies` ranks, without overlap in the local tensor.
void check_cover(const Shape& shape, const Partition& p, int tp, int copies) {
  CAPTURE(shape.str(), tp);
  const int dim = std::max(p.dim, 0);
  std::vector<int> held(static_cast<size_t>(shape[dim]), 0);
  for (int r = 0; r < tp; ++r) {
    const Shape local = local_shape(shape, p, tp, r, "w");
    int64_t end = 0;
    for (const Slab& s : slabs(shape, p, tp, r)) {
      CHECK(s.local_start >= end);
      end = s.local_start + s.count[dim];
      for (int64_t i = 0; i < s.count[dim]; ++i) ++held[static_cast<size_t>(s.start[dim] + i)];
      for (int d = 0; d < shape.rank(); ++d)
        if (d != dim) CHECK(s.count[d] == shape[d]);
    }
    CHECK(end <= local[dim]);
  }
  for (const int h : held) CHECK(h == copies);
}

}  // namespace

TEST_CASE("the parts of all ranks cover the logical tensor", "[sharding]") {
  const Partition qkv = Partition::cut(0, {{32, 8, 0, 4}, {16, 4, 0, 0, true}, {16, 4, 0, 0, true}});
  for (const int tp : {1, 2, 4}) check_cover({64, 5}, qkv, tp, 1);
  check_cover({5, 24}, Partition::cut(1, {{24, 24, 0}}), 4, 1);
  check_cover({7, 3}, Partition::replicated(), 4, 4);
  check_cover({37, 2}, Partition::cut(0, {{37, 40, 40}}), 8, 1);  // padded vocabulary, last rank holds 2 of 5 rows
  CHECK(local_shape({37, 2}, Partition::cut(0, {{37, 40, 40}}), 8, 7, "wte") == Shape{5, 2});
}

TEST_CASE("kv heads are copied when there are fewer than ranks", "[sharding]") {
  const Partition kv = Partition::cut(0, {{8, 2, 0, 0, true}});
  check_cover({8, 3}, kv, 8, 4);
  CHECK(slabs({8, 3}, kv, 8, 3)[0].start[0] == 0);
  CHECK(slabs({8, 3}, kv, 8, 4)[0].start[0] == 4);
}

TEST_CASE("a fused projection is cut piece by piece", "[sharding]") {
  const auto s = slabs({64, 5}, Partition::cut(0, {{32, 8, 0, 4}, {16, 4, 0, 0, true}, {16, 4, 0, 0, true}}), 2, 1);
  REQUIRE(s.size() == 3);
  CHECK((s[0].start[0] == 16 && s[0].count[0] == 16 && s[0].local_start == 0));
  CHECK((s[1].start[0] == 40 && s[1].count[0] == 8 && s[1].local_start == 16));
  CHECK((s[2].start[0] == 56 && s[2].count[0] == 8 && s[2].local_start == 24));
}

TEST_CASE("an uneven split gives the first ranks more", "[sharding]") {
  const Partition kv = Partition::cut(0, {{40, 10, 0, 0, true}});
  check_cover({40, 2}, kv, 4, 1);
  CHECK(local_shape({40, 2}, kv, 4, 0, "k") == Shape{12, 2});
  CHECK(local_shape({40, 2}, kv, 4, 3, "k") == Shape{8, 2});
  check_cover({11, 2}, Partition::cut(0, {{11, 11, 0}}), 4, 1);
}

TEST_CASE("query heads stay with their kv head", "[sharding]") {
  // 6 heads, 2 kv heads, 4 ranks: two ranks for each kv head, which split its 3 heads 2 and 1.
  const int64_t first[] = {0, 2, 3, 5}, count[] = {2, 1, 2, 1};
  for (int r = 0; r < 4; ++r) {
    const HeadRanges s = split_heads(6, 2, 4, r);
    CHECK(s.heads == IndexRange{first[r], count[r]});
    CHECK(s.kv_heads == IndexRange{r / 2, 1});
    CHECK(ranks_of_group(2, 4, r) == (r < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3}));
  }
  for (int64_t kv = 1; kv <= 12; ++kv)
    for (int64_t each = 1; each <= 4; ++each)
      for (int ranks = 1; ranks <= kv * each; ++ranks) {
        int64_t next = 0;
        for (int r = 0; r < ranks; ++r) {
          const HeadRanges s = split_heads(kv * each, kv, ranks, r);
          REQUIRE((s.heads.first == next && s.heads.count > 0 && s.kv_heads.count > 0));
          REQUIRE(s.heads.first / each == s.kv_heads.first);
          REQUIRE((s.heads.first + s.heads.count - 1) / each == s.kv_heads.first + s.kv_heads.count - 1);
          REQUIRE(s.heads.count % s.kv_heads.count == 0);
          next = s.heads.first + s.heads.count;
        }
        REQUIRE(next == kv * each);
      }
}

TEST_CASE("more ranks than units are refused with the legal values", "[sharding]") {
  CHECK_THROWS_WITH(local_shape({40, 2}, Partition::cut(0, {{40, 10, 0}}), 12, 0, "q_proj"),
                    Catch::Contains("parallel.tensor = 12") && Catch::Contains("q_proj") && Catch::Contains("1 to 10"));
}

TEST_CASE("a range of local elements is a few boxes of the logical tensor", "[sharding]") {
  const auto covered = [](const Shape& shape, const Partition& cut, int tp, int shards) {
    std::vector<int> seen(static_cast<size_t>(shape.elements()));
    const int64_t columns = shape.rank() == 2 ? shape[1] : 1;
    for (int r = 0; r < tp; ++r) {
      const Shape local = local_shape(shape, cut, tp, r, "w");
      for (int i = 0; i < shards; ++i) {
        const IndexRange s = split_evenly(local.elements(), shards, i);
        int64_t end = s.first;
        for (const Fragment& f : fragments(shape, local, cut.dim, slabs(shape, cut, tp, r), s.first, s.count)) {
          CHECK(f.offset >= end);
          end = f.offset + f.count.elements();
          CHECK(end <= s.first + s.count);
          for (int64_t y = 0; y < f.count[0]; ++y)
            for (int64_t x = 0; x < (shape.rank() == 2 ? f.count[1] : 1); ++x)
              ++seen[static_cast<size_t>((f.start[0] + y) * columns + (shape.rank() == 2 ? f.start[1] : 0) + x)];
        }
      }
    }
    for (const int n : seen) CHECK(n == 1);
  };
  covered({64, 5}, Partition::cut(0, {{32, 8, 0, 4}, {16, 4, 0, 0, true}, {16, 4, 0, 0, true}}), 2, 7);
  covered({5, 24}, Partition::cut(1, {{24, 24, 0}}), 4, 5);
  covered({37, 3}, Partition::cut(0, {{37, 40, 40}}), 8, 3);
  covered({41}, Partition::cut(0, {{41, 41, 0}}), 2, 6);
  covered({7, 3}, Partition::replicated(), 1, 4);
}

// Every token of every sample is in one place of one rank, and the ranges that ranks have of a chunk make up the chunk.
TEST_CASE("tokens are split into chunks and over sequence-parallel and tensor-parallel ranks", "[sharding]") {
  const int sp = GENERATE(1, 2, 3), tp = GENERATE(1, 2, 4);
  const int64_t length = GENERATE(12, 1000, 7), samples = GENERATE(1, 2, 3), chunk = GENERATE(0, 5, 12, 400);
  CAPTURE(sp, tp, length, samples, chunk);
  std::map<std::pair<int64_t, int64_t>, int> seen;  // by sample and token
  for (int s = 0; s < sp; ++s)
    for (int t = 0; t < tp; ++t) {
      const std::vector<TokenShare> shares = split_tokens(samples, length, {sp, s, tp, t, true, chunk});
      const auto chunks = static_cast<int64_t>(shares.size());
      REQUIRE(chunks <= (chunk == 0 ? 1 : (length + chunk - 1) / chunk));
      CHECK(shares.back().start < length);
      CHECK(shares.back().start + shares.back().length >= length);
      int64_t start = 0;
      for (const TokenShare& share : shares) {
        CHECK(share.start == start);
        CHECK(share.length < (chunk == 0 ? length : std::min(length, chunk)) + sp * tp);
        CHECK(share.first_token == share.start + s * share.tokens);
        int64_t row = 0;
        for (const TokenRun& r : share.local_runs()) {
          CHECK(r.row == row);
          row += r.samples * r.tokens;
          const int64_t at = share.first_row + r.row;
          CHECK(at / share.tokens == r.sample);
          CHECK(share.first_token + at % share.tokens == r.first_token);
          CHECK((r.samples == 1 || r.tokens == share.tokens));
          CHECK(r.first_token + r.tokens <= share.first_token + share.tokens);
          for (int64_t b = 0; b < r.samples; ++b)
            for (int64_t i = 0; i < r.tokens; ++i) ++seen[{r.sample + b, r.first_token + i}];
        }
        CHECK(row == share.local_rows);
        start += share.length;
      }
      CHECK(local_rows(shares) * sp * tp == samples * start);
    }
  for (int64_t b = 0; b < samples; ++b)
    for (int64_t i = 0; i < length; ++i) CHECK(seen[{b, i}] == 1);
  for (const auto& [place, times] : seen) CHECK(times == 1);
}
