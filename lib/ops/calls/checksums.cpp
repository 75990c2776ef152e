#include "ops/calls/checksums.h"

#include <limits>

#include "ops/calls/checks.h"

namespace fp::calls {

void check(const FindNonfinite& c) {
  const Checks op(c);
  op.compute("x", c.x);
  FP_CHECK(c.x.cols() <= std::numeric_limits<int32_t>::max(),
           "find_nonfinite: x is {}, expected fewer than 2^31 columns", describe(c.x));
  op.count("first", c.first, DType::i32, c.x.rows());
}
OpWork cost(const FindNonfinite& c) { return work(c, c.x.dtype, count_of(c.x), bytes_of(c.first, c.x)); }

void check(const BitSums& c) {
  const Checks op(c);
  op.compute("x", c.x);
  op.count("sums", c.sums, DType::i32, 2);
}
OpWork cost(const BitSums& c) { return work(c, c.x.dtype, 2 * count_of(c.x), bytes_of(c.sums, c.x)); }

void check(const PieceSums& c) {
  const Checks op(c);
  op.compute("x", c.x);
  op.matrix("sums", c.sums, DType::f32, c.sums.rows(), 2);
  FP_CHECK(c.sums.rows() > 0 && c.x.elements() % c.sums.rows() == 0, "piece_sums: {} elements in {} pieces",
           c.x.elements(), c.sums.rows());
}
OpWork cost(const PieceSums& c) { return work(c, c.x.dtype, 2 * count_of(c.x), bytes_of(c.sums, c.x)); }

}  // namespace fp::calls
