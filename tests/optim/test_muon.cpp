#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "ops/backends.h"
#include "optim/muon.h"

using namespace fp;

namespace {

using Matrix = std::vector<std::vector<double>>;  // by row

// Returns k orthonormal vectors of n elements.
Matrix orthonormal(int64_t k, int64_t n, std::mt19937& random) {
  std::normal_distribution<double> normal;
  Matrix rows;
  while (static_cast<int64_t>(rows.size()) < k) {
    std::vector<double> v(static_cast<size_t>(n));
    for (double& x : v) x = normal(random);
    for (int pass = 0; pass < 2; ++pass)
      for (const std::vector<double>& u : rows) {
        double dot = 0;
        for (size_t i = 0; i < v.size(); ++i) dot += u[i] * v[i];
        for (size_t i = 0; i < v.size(); ++i) v[i] -= dot * u[i];
      }
    double norm = 0;
    for (const double x : v) norm += x * x;
    for (double& x : v) x /= std::sqrt(norm);
    rows.push_back(std::move(v));
  }
  return rows;
}

}  // namespace

TEST_CASE("an orthogonalized matrix keeps its singular vectors, with singular values near 1", "[optim]") {
  for (const auto& ops : {make_ref_ops(), make_cpu_ops()})
    for (const auto& [rows, cols] : {std::pair(5, 5), std::pair(12, 40), std::pair(33, 7), std::pair(1, 9)}) {
      CAPTURE(ops->name(), rows, cols);
      std::mt19937 random(7);
      const auto rank = std::min(rows, cols);
      const Matrix u = orthonormal(rank, rows, random), v = orthonormal(rank, cols, random);
      // Singular values from 1 down to 0.1.
      std::vector<float> x(static_cast<size_t>(rows * cols));
      double squares = 0;
      for (int k = 0; k < rank; ++k) {
        const double s = std::pow(0.1, rank == 1 ? 0.0 : static_cast<double>(k) / (rank - 1));
        squares += s * s;
        for (int r = 0; r < rows; ++r)
          for (int c = 0; c < cols; ++c)
            x[static_cast<size_t>(r * cols + c)] +=
                static_cast<float>(s * u[static_cast<size_t>(k)][static_cast<size_t>(r)] *
                                   v[static_cast<size_t>(k)][static_cast<size_t>(c)]);
      }
      Arena arena(host_memory(1 << 20, false), 1 << 20);
      {
        const ArenaTensor t = arena.alloc(DType::f32, {rows, cols});
        ops->copy_in({t, x.data()});
        const ArenaTensor workspace = arena.alloc(DType::f32, {orthogonalize_elements(rows, cols)});
        orthogonalize(*ops, t, std::sqrt(squares), 2.0, workspace);
        ops->copy_out({x.data(), t});
      }
      for (size_t k = 0; k < u.size(); ++k)
        for (size_t l = 0; l < v.size(); ++l) {
          double product = 0;  // u' X v / 2
          for (int r = 0; r < rows; ++r)
            for (int c = 0; c < cols; ++c)
              product += u[k][static_cast<size_t>(r)] * static_cast<double>(x[static_cast<size_t>(r * cols + c)]) *
                         v[l][static_cast<size_t>(c)] / 2;
          if (k == l)
            CHECK((product > 0.6 && product < 1.3));
          else
            CHECK(std::abs(product) < 1e-4);
        }
    }
}

TEST_CASE("Muon updates the momentum of matrices, and all else as AdamW does", "[optim]") {
  const auto ops = make_ref_ops();
  Arena arena(host_memory(1 << 16, false), 1 << 16);
  OptimizerSection spec;
  spec.kind = OptimizerKind::muon;
  spec.muon.momentum = 0.75;
  spec.muon.adamw_lr = 0.5;
  const auto filled = [&](std::vector<float> values) {
    ArenaTensor t = arena.alloc(DType::f32, {static_cast<int64_t>(values.size())});
    ops->copy_in({t, values.data()});
    return t;
  };
  const auto values = [&](const Tensor& t) {
    std::vector<float> host(static_cast<size_t>(t.elements()));
    ops->copy_out({host.data(), t});
    return host;
  };
  const ArenaTensor param = filled({1, 2, 3, 4, 5}), gradient = filled({8, 16, -8, 1, 2});
  const ArenaTensor momentum = filled({4, 8, 0}), mean = filled({0.5f, 0.25f}), square = filled({1, 2});
  const std::vector<ParamRange> ranges{{{0, 3}, true, true, 0}, {{3, 2}, false, false, 0}};
  make_optimizer(spec)->update(*ops, {param, {momentum, mean, square}, gradient, {}}, ranges, {0.25, 3, 0.5});
  CHECK(values(momentum) == std::vector<float>{7, 14, -4});                      // 0.75 m + 0.5 g
  CHECK(values(gradient->slice(0, 3)) == std::vector<float>{9.25f, 18.5f, -7});  // + 0.75 m
  const ArenaTensor p = filled({4, 5}), g = filled({1, 2}), m = filled({0.5f, 0.25f}), s = filled({1, 2});
  OptimizerSection adamw = spec;
  adamw.kind = OptimizerKind::adamw;
  const std::vector<ParamRange> all{{{0, 2}, false}};
  make_optimizer(adamw)->update(*ops, {p, {m, s}, g, {}}, all, {0.125, 3, 0.5});
  CHECK(values(param->slice(0, 3)) == std::vector<float>{1, 2, 3});
  CHECK(values(param->slice(3, 2)) == values(p));
  CHECK(values(mean) == values(m));
  CHECK(values(square) == values(s));
}
