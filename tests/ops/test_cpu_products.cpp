// Matrix products of the CPU backend: its two implementations against each other, and symmetric products.
#include <catch2/catch.hpp>
#include <vector>

#include "base/parallel.h"
#include "compare.h"
#include "operands.h"
#include "ops/cpu/onednn.h"

namespace fp::test {
namespace {

struct Layout {
  bool a_transposed, b_transposed, add, bias;
};

Operand matrix(DType t, int64_t rows, int64_t cols, uint32_t stream) {
  Operand o;
  o.dtype = t;
  o.shape = {rows, cols};
  o.value.resize(static_cast<size_t>(o.elements()));
  o.fill(scaled(1.0), stream);
  return o;
}

template <class T>
std::vector<T> stored(const Operand& o) {
  std::vector<T> v;
  for (const double x : o.value) v.push_back(T(static_cast<float>(x)));
  return v;
}

template <class T>
void check(const Layout& l, bool c_bf16, int64_t m, int64_t n, int64_t k) {
  INFO("m=" << m << " n=" << n << " k=" << k << (l.a_transposed ? " a^T" : "") << (l.b_transposed ? " b^T" : "")
            << (l.add ? " add" : "") << (l.bias ? " bias" : "") << (c_bf16 ? " bf16" : " f32"));
  const DType t = dtype_of<T>::value;
  const auto a = stored<T>(matrix(t, m, k, 1)), b = stored<T>(matrix(t, n, k, 2)), bias = stored<T>(matrix(t, 1, n, 3));
  std::vector<float> one(static_cast<size_t>(m * n), 0.5f), two = one;
  cpu::GemmArgs g{.bf16 = t == DType::bf16,
                  .a_transposed = l.a_transposed,
                  .b_transposed = l.b_transposed,
                  .c_bf16 = c_bf16,
                  .add = l.add,
                  .m = m,
                  .n = n,
                  .k = k,
                  .a = a.data(),
                  .b = b.data(),
                  .bias = l.bias ? bias.data() : nullptr,
                  .c = one.data(),
                  .threads = max_threads()};
  cpu::ScratchPool pool;
  cpu::OneDnn onednn(best_isa());
  onednn.gemm(g, pool);
  const cpu::Kernels& kernels = cpu::kernels(best_isa());
  const auto scratch = pool.acquire(kernels.gemm_scratch(g));
  g.scratch = scratch.data();
  g.c = two.data();
  kernels.gemm(g);
  const double bound = sum_error(2 * k, 4.0 * static_cast<double>(k));
  for (size_t i = 0; i < one.size(); ++i) {
    const auto at = [&](const std::vector<float>& c) {
      return c_bf16 ? static_cast<float>(reinterpret_cast<const bf16*>(c.data())[i]) : c[i];
    };
    REQUIRE(close(at(one), at(two), bound, c_bf16 ? DType::bf16 : DType::f32));
  }
}

// Returns the product of a matrix [n,k] (transposed: [k,n]) and its own transpose, bit by bit.
template <class T>
std::vector<uint32_t> square(const cpu::Kernels& kernels, bool symmetric, bool transposed, bool c_bf16, int64_t n,
                             int64_t k) {
  const auto a = stored<T>(matrix(dtype_of<T>::value, n, k, 1));
  std::vector<uint32_t> c(static_cast<size_t>(n * n), 0x7fc07fc0);
  cpu::GemmArgs g{.bf16 = dtype_of<T>::value == DType::bf16,
                  .a_transposed = transposed,
                  .b_transposed = transposed,
                  .c_bf16 = c_bf16,
                  .symmetric = symmetric,
                  .m = n,
                  .n = n,
                  .k = k,
                  .a = a.data(),
                  .b = a.data(),
                  .c = c.data(),
                  .threads = max_threads()};
  cpu::ScratchPool pool;
  const auto scratch = pool.acquire(kernels.gemm_scratch(g));
  g.scratch = scratch.data();
  kernels.gemm(g);
  return c;
}

}  // namespace

TEST_CASE("a symmetric product has the bits of a general one") {
  // k is one or several pieces, and the largest n is several blocks.
  for (const auto [n, k] : {std::array<int64_t, 2>{1, 5}, {7, 3}, {47, 130}, {96, 384}, {200, 2100}, {2100, 20}})
    for (int i = 0; i <= static_cast<int>(std::min(best_isa(), Isa::avx512bf16)); ++i)
      for (const bool transposed : {false, true})
        for (const bool c_bf16 : {false, true}) {
          const auto isa = static_cast<Isa>(i);
          INFO(name_of(isa) << " n=" << n << " k=" << k << (transposed ? " transposed" : "")
                            << (c_bf16 ? " to bf16" : ""));
          const cpu::Kernels& kernels = cpu::kernels(isa);
          CHECK(square<float>(kernels, true, transposed, c_bf16, n, k) ==
                square<float>(kernels, false, transposed, c_bf16, n, k));
          CHECK(square<bf16>(kernels, true, transposed, c_bf16, n, k) ==
                square<bf16>(kernels, false, transposed, c_bf16, n, k));
        }
}

TEST_CASE("oneDNN and the CPU kernels agree on matrix products") {
  // Each operand is the shared one, in one and several blocks, and k is one or several pieces.
  for (const auto [m, n, k] : {std::array<int64_t, 3>{5, 7, 3},
                               {64, 96, 130},
                               {33, 50, 257},
                               {100, 200, 2100},
                               {300, 100, 2100},
                               {2100, 50, 2100},
                               {2200, 2100, 8}}) {
    check<float>({false, false, false, true}, false, m, n, k);
    check<float>({false, true, false, false}, false, m, n, k);
    check<float>({true, true, true, false}, false, m, n, k);
    if (best_isa() < Isa::avx512) continue;  // oneDNN has no bf16 there
    check<bf16>({false, false, false, true}, true, m, n, k);
    check<bf16>({false, true, false, false}, true, m, n, k);
    check<bf16>({true, true, true, false}, false, m, n, k);
  }
}

TEST_CASE("bf16 is widened on Intel's CPUs since Sapphire Rapids without AMX") {
  CHECK(fastest_isa(Isa::avx512bf16, true, true) == Isa::avx512);
  CHECK(fastest_isa(Isa::amx, true, true) == Isa::amx);
  CHECK(fastest_isa(Isa::avx512bf16, true, false) == Isa::avx512bf16);   // Cooper Lake
  CHECK(fastest_isa(Isa::avx512bf16, false, false) == Isa::avx512bf16);  // Zen 4
  CHECK(fastest_isa(Isa::avx512bf16, false, true) == Isa::avx512bf16);
  CHECK(fastest_isa(Isa::avx2, true, false) == Isa::avx2);
}

}  // namespace fp::test
