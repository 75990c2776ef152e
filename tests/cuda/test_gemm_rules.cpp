// A product described for a column-major library must equal the row-major product: the description is multiplied out.
#include <catch2/catch.hpp>
#include <vector>

#include "cuda/rules/gemm_rules.h"

using namespace fp;
using namespace fp::cuda;

namespace {

using Numbers = std::vector<double>;

Numbers counting(int64_t n, double first) {
  Numbers x;
  for (int64_t i = 0; i < n; ++i) x.push_back(first + static_cast<double>(i % 7));
  return x;
}

// Element (row, column) of op(matrix) in the library's terms: column-major with a leading dimension.
double at(const Numbers& memory, const StoredMatrix& m, int64_t row, int64_t column) {
  if (m.transposed) std::swap(row, column);
  REQUIRE(row < m.rows);
  REQUIRE(column < m.columns);
  return memory[static_cast<size_t>(column * m.leading + row)];
}

}  // namespace

TEST_CASE("a row-major product equals the swapped column-major product") {
  for (const bool a_transposed : {false, true})
    for (const bool b_transposed : {false, true}) {
      GemmCall g;
      g.m = 3, g.n = 5, g.k = 4;
      g.a_transposed = a_transposed, g.b_transposed = b_transposed;
      const Numbers a = counting(g.m * g.k, 1), b = counting(g.k * g.n, -2);
      const SwappedProduct p = swapped(g);
      REQUIRE(p.result == StoredMatrix{false, g.n, g.m, g.n});
      for (int64_t i = 0; i < g.m; ++i)
        for (int64_t j = 0; j < g.n; ++j) {
          double wanted = 0, got = 0;
          for (int64_t l = 0; l < g.k; ++l) {
            wanted += a[static_cast<size_t>(a_transposed ? l * g.m + i : i * g.k + l)] *
                      b[static_cast<size_t>(b_transposed ? j * g.k + l : l * g.n + j)];
            got += at(b, p.first, j, l) * at(a, p.second, l, i);
          }
          CHECK(got == wanted);
        }
    }
}

TEST_CASE("calls share a plan when only addresses of equal alignment differ") {
  alignas(256) static std::byte memory[4096];
  GemmCall g;
  g.m = 8, g.n = 16, g.k = 32;
  g.a = memory, g.b = memory + 512, g.c = memory + 1024;
  GemmCall moved = g;
  moved.a = memory + 2048;
  CHECK(key_of(g) == key_of(moved));
  CHECK(GemmKeyHash{}(key_of(g)) == GemmKeyHash{}(key_of(moved)));
  moved.a = memory + 2;
  CHECK_FALSE(key_of(g) == key_of(moved));

  const auto differs = [&](auto change) {
    GemmCall other = g;
    change(other);
    return !(key_of(other) == key_of(g));
  };
  CHECK(differs([](GemmCall& c) { c.m = 9; }));
  CHECK(differs([](GemmCall& c) { c.n = 17; }));
  CHECK(differs([](GemmCall& c) { c.k = 33; }));
  CHECK(differs([](GemmCall& c) { c.operands = DType::f32; }));
  CHECK(differs([](GemmCall& c) { c.result = DType::f32; }));
  CHECK(differs([](GemmCall& c) { c.a_transposed = true; }));
  CHECK(differs([](GemmCall& c) { c.b_transposed = true; }));
  CHECK(differs([](GemmCall& c) { c.add = true; }));
  CHECK(differs([](GemmCall& c) { c.epilogue = Epilogue::gelu; }));
  CHECK(differs([](GemmCall& c) { c.vector = memory; }));
  CHECK(differs([](GemmCall& c) { c.aux = memory + 8; }));
}

TEST_CASE("alignment_of returns the largest power of two up to 256") {
  CHECK(alignment_of(nullptr) == 256);
  CHECK(alignment_of(reinterpret_cast<void*>(1024)) == 256);
  CHECK(alignment_of(reinterpret_cast<void*>(48)) == 16);
  CHECK(alignment_of(reinterpret_cast<void*>(6)) == 2);
  CHECK(alignment_of(reinterpret_cast<void*>(7)) == 1);
}

TEST_CASE("epilogues are fused for types and alignments for which the library rounds once") {
  alignas(16) static std::byte matrix[64], vector[64];
  GemmCall g;
  g.m = 4, g.n = 24, g.k = 8;
  g.b_transposed = true;
  g.a = g.b = g.c = matrix;
  CHECK(epilogue_fits(g));
  g.epilogue = Epilogue::bias;
  g.vector = vector;
  CHECK(epilogue_fits(g));
  g.result = DType::f32;
  CHECK_FALSE(epilogue_fits(g));  // its bias would have to be f32
  g.result = DType::bf16;
  const auto change = [](GemmCall h, auto&& f) {
    f(h);
    return h;
  };
  CHECK_FALSE(epilogue_fits(change(g, [](auto& h) { h.vector = vector + 2; })));
  CHECK_FALSE(epilogue_fits(change(g, [](auto& h) { h.a = matrix + 8; })));
  CHECK_FALSE(epilogue_fits(change(g, [](auto& h) { h.b = matrix + 8; })));
  CHECK_FALSE(epilogue_fits(change(g, [](auto& h) { h.c = matrix + 8; })));
  CHECK_FALSE(epilogue_fits(change(g, [](auto& h) { h.n = 20; })));
  CHECK_FALSE(epilogue_fits(change(g, [](auto& h) { h.k = 12; })));
  CHECK(epilogue_fits(change(g, [](auto& h) { h.operands = h.result = DType::f32, h.n = 20, h.a = matrix + 4; })));

  g = GemmCall{};
  g.n = 24;
  alignas(16) static std::byte aux[64];
  for (const Epilogue e : {Epilogue::gelu, Epilogue::gelu_backward}) {
    g.epilogue = e;
    g.n = 24, g.aux = aux;
    CHECK(epilogue_fits(g));
    g.aux = aux + 2;
    CHECK_FALSE(epilogue_fits(g));
    g.n = 20, g.aux = aux;
    CHECK_FALSE(epilogue_fits(g));
    g.n = 24, g.operands = g.result = DType::f32;
    CHECK_FALSE(epilogue_fits(g));
    g.operands = g.result = DType::bf16;
  }
}
