#include "ops/calls/optimizer.h"

#include "ops/calls/checks.h"

namespace fp::calls {
namespace {

constexpr double kAdamWFlops = 15;  // per element

}  // namespace

void check(const SumSquares& c) {
  const Checks op(c);
  op.count("x", c.x, DType::f32, c.x.elements());
  op.count("sums", c.sums, DType::f32, static_cast<int64_t>(c.segments.size()));
  for (const Segment& s : c.segments)
    FP_CHECK(s.offset >= 0 && s.count >= 0 && s.offset + s.count <= c.x.elements(),
             "sum_squares: segment [{}, {}) of {} elements", s.offset, s.offset + s.count, c.x.elements());
}
OpWork cost(const SumSquares& c) {
  double elements = 0;
  for (const Segment& s : c.segments) elements += static_cast<double>(s.count);
  return work(c, c.x.dtype, 2 * elements, elements * static_cast<double>(size_of(c.x.dtype)) + bytes_of(c.sums));
}

void check(const AdamW& c) {
  const Checks op(c);
  const int64_t n = c.param.elements();
  op.count("param", c.param, DType::f32, n);
  op.count("m", c.m, DType::f32, n);
  op.count("v", c.v, DType::f32, n);
  op.count("grad", c.grad, DType::f32, n);
  if (c.weights) op.count("weights", c.weights, DType::bf16, n);
  if (c.sums.gradient) op.matrix("sums.gradient", c.sums.gradient, DType::f32, 1, 2);
  if (c.sums.bits) op.matrix("sums.bits", c.sums.bits, DType::i32, 4, 2);
  FP_CHECK(c.options.step >= 1, "adamw: step is {}, expected at least 1", c.options.step);
}
OpWork cost(const AdamW& c) {
  return work(c, c.param.dtype, kAdamWFlops * count_of(c.param),
              2 * bytes_of(c.param, c.m, c.v) + bytes_of(c.grad, c.weights, c.sums.gradient, c.sums.bits));
}

}  // namespace fp::calls
