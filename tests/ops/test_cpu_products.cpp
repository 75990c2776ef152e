// Matrix products of the CPU backend with every set of kernels, in sizes that need several blocks, and symmetric
// products.
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "amx_twin.h"
#include "base/parallel.h"
#include "compare.h"
#include "operands.h"
#include "ops/cpu/scratch.h"
#include "support/skip.h"

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

// Every set of kernels that this CPU can run, and the twin of AMX's.
std::vector<std::pair<std::string, const cpu::Kernels*>> all_kernels() {
  std::vector<std::pair<std::string, const cpu::Kernels*>> all{{"amx twin", &amx_twin()}};
  for (int i = 0; i <= static_cast<int>(best_isa()); ++i)
    all.emplace_back(name_of(static_cast<Isa>(i)), &cpu::kernels(static_cast<Isa>(i)));
  return all;
}

// Runs a product with scratch memory for `threads` threads.
void multiply(const cpu::Kernels& kernels, cpu::GemmArgs g, int threads) {
  set_threads(threads);
  g.threads = threads;
  cpu::ScratchPool pool;
  const auto scratch = pool.acquire(kernels.gemm_scratch(g));
  g.scratch = scratch.data();
  kernels.gemm(g);
  set_threads(0);
}

// Operands a[m,k] and b[n,k] of a product, stored in both ways, and its exact value.
template <class T>
struct Product {
  int64_t m, n, k;
  std::vector<T> a, b, a_transposed, b_transposed, bias;
  std::vector<double> c;

  Product(int64_t rows, int64_t columns, int64_t depth) : m(rows), n(columns), k(depth) {
    const DType t = dtype_of<T>::value;
    const Operand x = matrix(t, m, k, 1), y = matrix(t, n, k, 2);
    a = stored<T>(x), b = stored<T>(y), bias = stored<T>(matrix(t, 1, n, 3));
    a_transposed = stored<T>(transposed(x)), b_transposed = stored<T>(transposed(y));
    c.resize(static_cast<size_t>(m * n));
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t w = 0; w < k; ++w) sum += x.value[size_t(i * k + w)] * y.value[size_t(j * k + w)];
        c[size_t(i * n + j)] = sum;
      }
  }

  static Operand transposed(const Operand& o) {
    Operand t = o;
    const int64_t rows = o.shape[0], cols = o.shape[1];
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) t.value[size_t(j * rows + i)] = o.value[size_t(i * cols + j)];
    return t;
  }

  // Returns c as the kernels compute it; before, every element of c is 0.5.
  std::vector<float> computed(const cpu::Kernels& kernels, const Layout& l, bool c_bf16, int threads) const {
    std::vector<float> result(size_t(m * n), 0.5f);
    multiply(kernels,
             {.bf16 = dtype_of<T>::value == DType::bf16,
              .a_transposed = l.a_transposed,
              .b_transposed = l.b_transposed,
              .c_bf16 = c_bf16,
              .add = l.add,
              .m = m,
              .n = n,
              .k = k,
              .a = (l.a_transposed ? a_transposed : a).data(),
              .b = (l.b_transposed ? b_transposed : b).data(),
              .bias = l.bias ? bias.data() : nullptr,
              .c = result.data()},
             threads);
    if (!c_bf16) return result;
    std::vector<float> widened(result.size());
    for (size_t i = 0; i < widened.size(); ++i)
      widened[i] = static_cast<float>(reinterpret_cast<const bf16*>(result.data())[i]);
    return widened;
  }

  void check(const Layout& l, bool c_bf16) const {
    const double bound = sum_error(2 * k, 4.0 * static_cast<double>(k));
    for (const auto& [name, kernels] : all_kernels()) {
      INFO(name << " m=" << m << " n=" << n << " k=" << k << (l.a_transposed ? " a^T" : "")
                << (l.b_transposed ? " b^T" : "") << (l.add ? " add" : "") << (l.bias ? " bias" : "")
                << (c_bf16 ? " to bf16" : ""));
      const std::vector<float> one = computed(*kernels, l, c_bf16, 1);
      for (size_t i = 0; i < one.size(); ++i) {
        const double more =
            (l.add ? 0.5 : 0) + (l.bias ? static_cast<double>(static_cast<float>(bias[i % size_t(n)])) : 0);
        if (!close(one[i], c[i] + more, bound, c_bf16 ? DType::bf16 : DType::f32)) {
          CAPTURE(i, one[i], c[i] + more);
          FAIL("too far from the exact value");
        }
      }
      for (const int threads : {2, 3, 7})
        if (threads == 3 || m * n * k < 2'000'000) REQUIRE(computed(*kernels, l, c_bf16, threads) == one);
    }
  }

  void check_layouts() const {
    check({false, false, false, true}, dtype_of<T>::value == DType::bf16);
    check({false, true, false, false}, dtype_of<T>::value == DType::bf16);
    check({true, true, true, false}, false);
    check({true, false, false, false}, false);
  }
};

// Returns the product of a matrix [n,k] (transposed: [k,n]) and its own transpose, bit by bit.
template <class T>
std::vector<uint32_t> square(const cpu::Kernels& kernels, bool symmetric, bool transposed, bool c_bf16, int64_t n,
                             int64_t k) {
  const auto a = stored<T>(matrix(dtype_of<T>::value, n, k, 1));
  std::vector<uint32_t> c(static_cast<size_t>(n * n), 0x7fc07fc0);
  multiply(kernels,
           {.bf16 = dtype_of<T>::value == DType::bf16,
            .a_transposed = transposed,
            .b_transposed = transposed,
            .c_bf16 = c_bf16,
            .symmetric = symmetric,
            .m = n,
            .n = n,
            .k = k,
            .a = a.data(),
            .b = a.data(),
            .c = c.data()},
           2);
  return c;
}

}  // namespace

TEST_CASE("a symmetric product has the bits of a general one") {
  // k is one or several pieces, and the largest n is several blocks.
  for (const auto [n, k] : {std::array<int64_t, 2>{1, 5}, {7, 3}, {47, 130}, {96, 384}, {200, 2100}, {2100, 20}})
    for (const auto& [name, kernels] : all_kernels())
      for (const bool transposed : {false, true})
        for (const bool c_bf16 : {false, true}) {
          INFO(name << " n=" << n << " k=" << k << (transposed ? " transposed" : "") << (c_bf16 ? " to bf16" : ""));
          CHECK(square<float>(*kernels, true, transposed, c_bf16, n, k) ==
                square<float>(*kernels, false, transposed, c_bf16, n, k));
          CHECK(square<bf16>(*kernels, true, transposed, c_bf16, n, k) ==
                square<bf16>(*kernels, false, transposed, c_bf16, n, k));
        }
}

TEST_CASE("products are near their exact values, with the same bits with any number of threads") {
  // Each operand is the shared one, in one and several blocks, and k is one or several pieces.
  for (const auto [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                               {5, 7, 3},
                               {33, 50, 257},
                               {64, 96, 130},
                               {150, 40, 2100},
                               {40, 90, 3300},
                               {1100, 30, 300},
                               {2100, 2150, 3}}) {
    Product<float>(m, n, k).check_layouts();
    Product<bf16>(m, n, k).check_layouts();
  }
}

TEST_CASE("the kernels of AMX multiply several blocks of rows, each over several pieces of k") {
  // As many rows as tile kernels share at a time with this k, and some more; too many for plain loops.
  const int64_t m = 520, n = 530, k = 3072;
  const auto a = stored<bf16>(matrix(DType::bf16, m, k, 1)), b = stored<bf16>(matrix(DType::bf16, n, k, 2));
  const auto product = [&](const cpu::Kernels& kernels) {
    std::vector<bf16> c(size_t(m * n));
    multiply(kernels,
             {.bf16 = true, .c_bf16 = true, .m = m, .n = n, .k = k, .a = a.data(), .b = b.data(), .c = c.data()}, 2);
    return c;
  };
  const auto tiles = product(amx_twin()), vectors = product(cpu::kernels(chosen_isa()));
  const double bound = sum_error(2 * k, 4.0 * static_cast<double>(k));
  for (size_t i = 0; i < tiles.size(); ++i)
    REQUIRE(close(static_cast<float>(tiles[i]), static_cast<float>(vectors[i]), bound, DType::bf16));
}

TEST_CASE("AMX and its twin have the same bits") {
  if (best_isa() < Isa::amx) FP_SKIP("this CPU has no AMX that may be used");
  for (const auto [m, n, k] : {std::array<int64_t, 3>{33, 50, 257}, {150, 40, 2100}, {40, 90, 3300}}) {
    const Product<bf16> p(m, n, k);
    for (const bool c_bf16 : {false, true})
      CHECK(p.computed(cpu::kernels(Isa::amx), {false, true, false, true}, c_bf16, 2) ==
            p.computed(amx_twin(), {false, true, false, true}, c_bf16, 2));
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
