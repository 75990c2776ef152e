#include "ops/calls/optimizer.h"

#include "ops/calls/checks.h"

namespace fp::calls {
void check(const SumSquares& c) {
  const Checks op(c);
  op.count("x", c.x, DType::f32, c.x.elements());
  op.count("sums", c.sums, DType::f32, static_cast<int64_t>(c.segments.size()));
  for (const IndexRange& s : c.segments)
    FP_CHECK(s.first >= 0 && s.count >= 0 && s.first + s.count <= c.x.elements(),
             "sum_squares: segment [{}, {}) of {} elements", s.first, s.first + s.count, c.x.elements());
}
OpWork cost(const SumSquares& c) {
  double elements = 0;
  for (const IndexRange& s : c.segments) elements += static_cast<double>(s.count);
  return work(c, c.x.dtype, 2 * elements, elements * static_cast<double>(size_of(c.x.dtype)) + bytes_of(c.sums));
}

namespace {

template <class Rule, class Call>
void check_update(const Call& c) {
  const Checks op(c);
  const int64_t n = c.param.elements();
  op.count("param", c.param, DType::f32, n);
  for (size_t i = 0; i < c.states.size(); ++i) op.count(Rule::kStateNames[i], c.states[i], DType::f32, n);
  op.count("grad", c.grad, DType::f32, n);
  if (c.weights) op.count("weights", c.weights, DType::bf16, n);
  if (c.sums.gradient) op.matrix("sums.gradient", c.sums.gradient, DType::f32, 1, 2);
  if (c.sums.bits) op.matrix("sums.bits", c.sums.bits, DType::i32, Rule::kStates + 2, 2);
  FP_CHECK(c.options.step >= 1, "{}: step is {}, expected at least 1", op.name, c.options.step);
}

template <class Rule, class Call>
OpWork cost_of_update(const Call& c) {
  double bytes = 2 * bytes_of(c.param) + bytes_of(c.grad, c.weights, c.sums.gradient, c.sums.bits);
  for (const Tensor& state : c.states) bytes += 2 * bytes_of(state);
  return work(c, c.param.dtype, Rule::kFlops * count_of(c.param), bytes);
}

}  // namespace

#define FP_UPDATE(Rule, name)                                 \
  void check(const Rule& c) { check_update<rules::Rule>(c); } \
  OpWork cost(const Rule& c) { return cost_of_update<rules::Rule>(c); }
FP_OPTIMIZERS(FP_UPDATE)
#undef FP_UPDATE

}  // namespace fp::calls
