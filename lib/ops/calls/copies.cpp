#include "ops/calls/copies.h"

#include "ops/calls/checks.h"

namespace fp::calls {

void check(const CopyIn&) {}
OpWork cost(const CopyIn& c) { return work(c, c.dst.dtype, 0, bytes_of(c.dst)); }

void check(const CopyOut&) {}
OpWork cost(const CopyOut& c) { return work(c, c.src.dtype, 0, bytes_of(c.src)); }

void check(const Copy& c) { Checks(c).count("dst", c.dst, c.src.dtype, c.src.elements()); }
OpWork cost(const Copy& c) { return work(c, c.dst.dtype, 0, bytes_of(c.dst, c.src)); }

void check(const Zero&) {}
OpWork cost(const Zero& c) { return work(c, c.x.dtype, 0, bytes_of(c.x)); }

void check(const Cast& c) {
  const Checks op(c);
  op.compute("src", c.src);
  op.count("dst", c.dst, c.src.dtype == DType::f32 ? DType::bf16 : DType::f32, c.src.elements());
}
OpWork cost(const Cast& c) { return work(c, c.dst.dtype, 0, bytes_of(c.dst, c.src)); }

void check(const Permute& c) {
  const Tensor& x = c.x;
  FP_CHECK(x && (x.dtype == DType::f32 || x.dtype == DType::bf16 || x.dtype == DType::i32),
           "permute: x is {}, expected fp32, bf16 or i32", describe(x));
  const int rank = x.shape.rank();
  Shape expected;
  unsigned seen = 0;
  for (const int from : c.order) {
    const bool fresh = from >= 0 && from < rank && (seen >> from & 1u) == 0;
    FP_CHECK(fresh, "permute: order names dimension {} of x {}, expected each of them once", from, x.shape.str());
    seen |= 1u << from;
    expected.push_back(x.shape[from]);
  }
  FP_CHECK(rank > 0 && expected.rank() == rank, "permute: an order of {} dimensions for x {}", c.order.size(),
           x.shape.str());
  Checks(c).exactly("y", c.y, x.dtype, expected);
}
OpWork cost(const Permute& c) { return work(c, c.y.dtype, 0, bytes_of(c.y, c.x)); }

void check(const CopyColumns& c) {
  const Checks op(c);
  op.compute("x", c.x);
  op.compute("y", c.y);
  op.matrix("y", c.y, c.x.dtype, c.x.rows(), c.y.cols());
  const auto within = [&c](int64_t first, const Tensor& t) { return first >= 0 && c.count <= t.cols() - first; };
  FP_CHECK(c.count >= 0 && within(c.y_first, c.y) && within(c.x_first, c.x),
           "copy_columns: columns [{}, {}) of y {} from [{}, {}) of x {}", c.y_first, c.y_first + c.count,
           c.y.shape.str(), c.x_first, c.x_first + c.count, c.x.shape.str());
}
OpWork cost(const CopyColumns& c) {
  const double elements = static_cast<double>(c.y.rows()) * static_cast<double>(c.count);
  const bool add = c.write == Write::add;
  return work(c, c.y.dtype, add ? elements : 0.0, elements * static_cast<double>(size_of(c.y.dtype)) * (add ? 3 : 2));
}

void check(const RoundStochastically& c) {
  const Checks op(c);
  op.count("src", c.src, DType::f32, c.src.elements());
  op.count("dst", c.dst, DType::bf16, c.src.elements());
  FP_CHECK(c.rounding.first >= 0 && c.rounding.first % 8 == 0, "round_stochastically: begins at element {}",
           c.rounding.first);
}
OpWork cost(const RoundStochastically& c) { return work(c, c.dst.dtype, 0, bytes_of(c.dst, c.src)); }

}  // namespace fp::calls
