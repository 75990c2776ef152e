// Checks of the ops that copy, convert or inspect tensors.
#include <limits>

#include "ops/checks.h"
#include "ops/checks_op.h"

namespace fp::checks {

void copy(const Tensor& dst, const Tensor& src) { Op{"copy"}.count("dst", dst, src.dtype, src.elements()); }

void cast(const Tensor& dst, const Tensor& src) {
  const Op op{"cast"};
  op.compute("src", src);
  op.count("dst", dst, src.dtype == DType::f32 ? DType::bf16 : DType::f32, src.elements());
}

void round_stochastically(const Tensor& dst, const Tensor& src) {
  const Op op{"round_stochastically"};
  op.count("src", src, DType::f32, src.elements());
  op.count("dst", dst, DType::bf16, src.elements());
}

void permute(const Tensor& y, const Tensor& x, std::span<const int> order) {
  const Op op{"permute"};
  FP_CHECK(x && (x.dtype == DType::f32 || x.dtype == DType::bf16 || x.dtype == DType::i32),
           "permute: x is {}, expected fp32, bf16 or i32", describe(x));
  const int rank = x.shape.rank();
  Shape expected;
  unsigned seen = 0;
  for (const int from : order) {
    const bool fresh = from >= 0 && from < rank && (seen >> from & 1u) == 0;
    FP_CHECK(fresh, "permute: order names dimension {} of x {}, expected each of them once", from, x.shape.str());
    seen |= 1u << from;
    expected.push_back(x.shape[from]);
  }
  FP_CHECK(rank > 0 && expected.rank() == rank, "permute: an order of {} dimensions for x {}", order.size(),
           x.shape.str());
  op.exactly("y", y, x.dtype, expected);
}

void copy_columns(const Tensor& y, int64_t y_first, const Tensor& x, int64_t x_first, int64_t count) {
  const Op op{"copy_columns"};
  op.compute("x", x);
  op.compute("y", y);
  op.matrix("y", y, x.dtype, x.rows(), y.cols());
  const auto within = [count](int64_t first, const Tensor& t) { return first >= 0 && count <= t.cols() - first; };
  FP_CHECK(count >= 0 && within(y_first, y) && within(x_first, x),
           "copy_columns: columns [{}, {}) of y {} from [{}, {}) of x {}", y_first, y_first + count, y.shape.str(),
           x_first, x_first + count, x.shape.str());
}

void find_nonfinite(const Tensor& first, const Tensor& x) {
  const Op op{"find_nonfinite"};
  op.compute("x", x);
  FP_CHECK(x.cols() <= std::numeric_limits<int32_t>::max(), "find_nonfinite: x is {}, expected fewer than 2^31 columns",
           describe(x));
  op.count("first", first, DType::i32, x.rows());
}

void bit_sums(const Tensor& sums, const Tensor& x) {
  const Op op{"bit_sums"};
  op.compute("x", x);
  op.count("sums", sums, DType::i32, 2);
}

void piece_sums(const Tensor& sums, const Tensor& x) {
  const Op op{"piece_sums"};
  op.compute("x", x);
  op.matrix("sums", sums, DType::f32, sums.rows(), 2);
  FP_CHECK(sums.rows() > 0 && x.elements() % sums.rows() == 0, "piece_sums: {} elements in {} pieces", x.elements(),
           sums.rows());
}

}  // namespace fp::checks
