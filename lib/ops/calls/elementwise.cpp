#include "ops/calls/elementwise.h"

#include "ops/calls/checks.h"

namespace fp::calls {
namespace {

// FLOPs per element, counted from the definitions (exp, tanh, a division: 1 each).
double forward_flops(fp::Activation kind) {
  return kind == fp::Activation::gelu ? 9 : kind == fp::Activation::swiglu ? 5 : 8;
}
double backward_flops(fp::Activation kind) {
  return kind == fp::Activation::gelu ? 18 : kind == fp::Activation::swiglu ? 11 : 15;
}

void gated(const Checks& op, const Tensor& x, const char* wide, const Tensor& y, const char* narrow,
           const ActivationSpec& s) {
  op.compute(narrow, y);
  op.matrix(wide, x, y.dtype, y.rows(), s.inputs(y.cols()));
  FP_CHECK(s.limit >= 0.0, "{}: limit is {}, expected at least 0", op.name, s.limit);
}

}  // namespace

void check(const Activation& c) { gated(Checks(c), c.x, "x", c.y, "y", c.spec); }
OpWork cost(const Activation& c) {
  return work(c, c.y.dtype, forward_flops(c.spec.kind) * count_of(c.y), bytes_of(c.y, c.x));
}

void check(const ActivationBackward& c) {
  const Checks op(c);
  gated(op, c.x, "x", c.dy, "dy", c.spec);
  op.same("dx", c.dx, c.x);
}
OpWork cost(const ActivationBackward& c) {
  return work(c, c.dx.dtype, backward_flops(c.spec.kind) * count_of(c.dy), bytes_of(c.dx, c.dy, c.x));
}

void check(const Add& c) {
  const Checks op(c);
  op.compute("a", c.a);
  op.count("b", c.b, c.a.dtype, c.a.elements());
  op.count("y", c.y, c.a.dtype, c.a.elements());
}
OpWork cost(const Add& c) { return work(c, c.y.dtype, count_of(c.y), bytes_of(c.y, c.a, c.b)); }

void check(const Accumulate& c) {
  const Checks op(c);
  op.compute("src", c.src);
  op.compute("dst", c.dst);
  op.count("dst", c.dst, c.dst.dtype, c.src.elements());
}
OpWork cost(const Accumulate& c) {
  return work(c, c.dst.dtype, count_of(c.dst), 2 * bytes_of(c.dst) + bytes_of(c.src));
}

void check(const ScaledAdd& c) {
  const Checks op(c);
  op.compute("a", c.a);
  op.compute("y", c.y);
  op.count("y", c.y, c.y.dtype, c.a.elements());
  if (c.b) op.count("b", c.b, c.a.dtype, c.a.elements());
}
OpWork cost(const ScaledAdd& c) { return work(c, c.y.dtype, (c.b ? 3 : 1) * count_of(c.y), bytes_of(c.y, c.a, c.b)); }

void check(const Dropout& c) {
  const Checks op(c);
  op.compute("x", c.x);
  op.rank("x", c.x, 3);
  op.exactly("y", c.y, c.x.dtype, c.x.shape);
  op.drop(c.stream, c.sample_ids, c.x.shape[0]);
}
OpWork cost(const Dropout& c) { return work(c, c.y.dtype, count_of(c.y), bytes_of(c.y, c.x, c.sample_ids)); }

}  // namespace fp::calls
