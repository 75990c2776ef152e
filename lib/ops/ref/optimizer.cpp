#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {

using ref::Values;

void RefOps::run(const calls::SumSquares& call) {
  const Values X = ref::load(call.x);
  Values S;
  for (const Segment& segment : call.segments) {
    double sum = 0.0;
    for (int64_t i = segment.offset; i < segment.offset + segment.count; ++i) sum += X[i] * X[i];
    S.push_back(sum);
  }
  ref::store(call.sums, S);
}

void RefOps::run(const calls::AdamW& call) {
  Values P = ref::load(call.param), first = ref::load(call.m), second = ref::load(call.v);
  const Values G = ref::load(call.grad);
  const AdamW& a = call.options;
  const double correction1 = 1.0 - std::pow(a.beta1, static_cast<double>(a.step));
  const double correction2 = 1.0 - std::pow(a.beta2, static_cast<double>(a.step));
  for (size_t i = 0; i < P.size(); ++i) {
    const double g = G[i] * a.grad_scale;
    first[i] = a.beta1 * first[i] + (1.0 - a.beta1) * g;
    second[i] = a.beta2 * second[i] + (1.0 - a.beta2) * g * g;
    P[i] -= a.lr * (first[i] / correction1 / (std::sqrt(second[i] / correction2) + a.eps) + a.weight_decay * P[i]);
  }
  ref::store(call.param, P);
  ref::store(call.m, first);
  ref::store(call.v, second);
  if (call.weights) ref::store(call.weights, ref::load(call.param));  // a copy of the new param
  if (call.sums.gradient) run(calls::PieceSums{call.sums.gradient, call.grad});
  if (!call.sums.bits) return;
  run(calls::Zero{call.sums.bits});
  const Tensor* const written[] = {&call.param, &call.m, &call.v, &call.weights};
  for (int64_t i = 0; i < 4; ++i)
    if (*written[i]) run(calls::BitSums{call.sums.bits.slice(i, 1).reshaped({2}), *written[i]});
}

}  // namespace fp
