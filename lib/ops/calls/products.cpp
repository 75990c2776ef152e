#include "ops/calls/products.h"

#include "ops/calls/checks.h"

namespace fp::calls {
namespace {

// The work of a product of the rows of `tokens` with a layer of n outputs and k inputs.
template <class Call>
OpWork product(const Call& call, const Tensor& tokens, int64_t n, int64_t k, double bytes) {
  const int64_t m = tokens.rows();
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  return {op_name(call), flops, bytes, m, n, k, tokens.dtype};
}

}  // namespace

void check(const Linear& c) {
  const Checks op(c);
  op.compute("x", c.x);
  op.rank("w", c.w, 2);
  op.exactly("w", c.w, c.x.dtype, {c.w.shape[0], c.x.cols()});
  op.matrix("y", c.y, c.x.dtype, c.x.rows(), c.w.shape[0]);
  if (c.bias) op.count("bias", c.bias, c.x.dtype, c.w.shape[0]);
}
OpWork cost(const Linear& c) { return product(c, c.x, c.y.cols(), c.x.cols(), bytes_of(c.y, c.x, c.w, c.bias)); }

void check(const LinearBackwardInput& c) {
  const Checks op(c);
  op.compute("dy", c.dy);
  op.rank("w", c.w, 2);
  op.exactly("w", c.w, c.dy.dtype, {c.dy.cols(), c.w.shape[1]});
  op.matrix("dx", c.dx, c.dy.dtype, c.dy.rows(), c.w.shape[1]);
}
OpWork cost(const LinearBackwardInput& c) {
  return product(c, c.dy, c.dy.cols(), c.dx.cols(), bytes_of(c.dx, c.dy, c.w));
}

void check(const LinearBackwardWeight& c) {
  const Checks op(c);
  op.compute("dy", c.dy);
  op.compute("x", c.x);
  op.matrix("x", c.x, c.dy.dtype, c.dy.rows(), c.x.cols());
  op.exactly("dw", c.dw, DType::f32, {c.dy.cols(), c.x.cols()});
}
OpWork cost(const LinearBackwardWeight& c) {
  return product(c, c.dy, c.dy.cols(), c.x.cols(), bytes_of(c.dy, c.x) + bytes_written(c.dw, c.write));
}

void check(const BiasBackward& c) {
  const Checks op(c);
  op.compute("dy", c.dy);
  op.count("db", c.db, DType::f32, c.dy.cols());
}
OpWork cost(const BiasBackward& c) {
  return work(c, c.dy.dtype, count_of(c.dy), bytes_of(c.dy) + bytes_written(c.db, c.write));
}

}  // namespace fp::calls
