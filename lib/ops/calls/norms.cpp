#include "ops/calls/norms.h"

#include "ops/calls/checks.h"

namespace fp::calls {
namespace {

// FLOPs per element, counted from the definitions (sqrt, a division: 1 each).
constexpr double kNormFlops = 8, kBackwardInputFlops = 11, kBackwardWeightFlops = 5;

}  // namespace

void check(const Norm& c) {
  const Checks op(c);
  op.compute("x", c.x);
  op.same("y", c.y, c.x);
  if (c.residual) {
    op.same("residual", c.residual, c.x);
    op.same("sum", c.sum, c.x);
  } else {
    op.empty("sum", c.sum, "as residual is");
  }
  op.matrix("stats", c.stats, DType::f32, c.x.rows(), 2);
  op.count("gain", c.gain, c.x.dtype, c.x.cols());
  if (c.bias) op.count("bias", c.bias, c.x.dtype, c.x.cols());
  FP_CHECK(c.spec.eps >= 0.0, "norm: eps is {}, expected at least 0", c.spec.eps);
}
OpWork cost(const Norm& c) {
  return work(c, c.y.dtype, (kNormFlops + (c.residual ? 1 : 0)) * count_of(c.x),
              bytes_of(c.y, c.sum, c.stats, c.x, c.residual, c.gain, c.bias));
}

void check(const NormBackwardInput& c) {
  const Checks op(c);
  op.compute("x", c.x);
  op.same("dy", c.dy, c.x);
  op.same("dx", c.dx, c.x);
  op.matrix("stats", c.stats, DType::f32, c.x.rows(), 2);
  op.count("gain", c.gain, c.x.dtype, c.x.cols());
}
OpWork cost(const NormBackwardInput& c) {
  return work(c, c.dx.dtype, kBackwardInputFlops * count_of(c.x),
              bytes_of(c.dy, c.x, c.stats, c.gain) + bytes_written(c.dx, c.write));
}

void check(const NormBackwardWeight& c) {
  const Checks op(c);
  op.compute("x", c.x);
  op.same("dy", c.dy, c.x);
  op.matrix("stats", c.stats, DType::f32, c.x.rows(), 2);
  op.count("dgain", c.dgain, DType::f32, c.x.cols());
  if (c.dbias) op.count("dbias", c.dbias, DType::f32, c.x.cols());
}
OpWork cost(const NormBackwardWeight& c) {
  return work(c, c.dy.dtype, kBackwardWeightFlops * count_of(c.x),
              bytes_of(c.dy, c.x, c.stats) + bytes_written(c.dgain, c.write) + bytes_written(c.dbias, c.write));
}

}  // namespace fp::calls
