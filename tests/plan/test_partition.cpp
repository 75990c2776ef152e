#include <catch2/catch.hpp>
#include <set>

#include "plan/mesh.h"
#include "plan/partition.h"

using namespace fp;

TEST_CASE("ranks and coordinates are inverse, tensor fastest", "[plan]") {
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

// Every row of the cut dimension must be held by exactly `copies` ranks, in an order that keeps pieces apart.
void check_cover(const Shape& shape, const Partition& p, int tp, int copies) {
  CAPTURE(shape.str(), tp);
  const int dim = std::max(p.dim, 0);
  std::vector<int> held(static_cast<size_t>(shape[dim]), 0);
  const Shape local = local_shape(shape, p, tp, "w");
  for (int r = 0; r < tp; ++r) {
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

TEST_CASE("cuts cover the logical tensor", "[plan]") {
  const Partition qkv = Partition::cut(0, {{32, 8, 0}, {16, 4, 0}, {16, 4, 0}});
  for (const int tp : {1, 2, 4}) check_cover({64, 5}, qkv, tp, 1);
  check_cover({5, 24}, Partition::cut(1, {{24, 24, 0}}), 4, 1);
  check_cover({7, 3}, Partition::replicated(), 4, 4);
  check_cover({37, 2}, Partition::cut(0, {{37, 40, 40}}), 8, 1);  // padded vocabulary, last rank holds 2 of 5 rows
  CHECK(local_shape({37, 2}, Partition::cut(0, {{37, 40, 40}}), 8, "wte") == Shape{5, 2});
}

TEST_CASE("kv heads are copied when there are fewer than ranks", "[plan]") {
  const Partition kv = Partition::cut(0, {{8, 2, 0}});
  check_cover({8, 3}, kv, 8, 4);
  CHECK(slabs({8, 3}, kv, 8, 3)[0].start[0] == 0);
  CHECK(slabs({8, 3}, kv, 8, 4)[0].start[0] == 4);
}

TEST_CASE("a fused projection is cut piece by piece", "[plan]") {
  const auto s = slabs({64, 5}, Partition::cut(0, {{32, 8, 0}, {16, 4, 0}, {16, 4, 0}}), 2, 1);
  REQUIRE(s.size() == 3);
  CHECK((s[0].start[0] == 16 && s[0].count[0] == 16 && s[0].local_start == 0));
  CHECK((s[1].start[0] == 40 && s[1].count[0] == 8 && s[1].local_start == 16));
  CHECK((s[2].start[0] == 56 && s[2].count[0] == 8 && s[2].local_start == 24));
}

TEST_CASE("a cut that does not go up is refused with what would", "[plan]") {
  CHECK_THROWS_WITH(local_shape({40, 2}, Partition::cut(0, {{40, 10, 0}}), 4, "k_proj"),
                    Catch::Contains("parallel.tensor = 4") && Catch::Contains("k_proj") && Catch::Contains("10"));
}
