#include "ops/checks.h"
#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {

using ref::Values;

void RefOps::sum_squares(const Tensor& sums, const Tensor& x, std::span<const Segment> segments) {
  checks::sum_squares(sums, x, segments);
  const Values X = ref::load(x);
  Values S;
  for (const Segment& segment : segments) {
    double sum = 0.0;
    for (int64_t i = segment.offset; i < segment.offset + segment.count; ++i) sum += X[i] * X[i];
    S.push_back(sum);
  }
  ref::store(sums, S);
}

void RefOps::adamw(const Tensor& param, const Tensor& m, const Tensor& v, const Tensor& grad, const Tensor& weights,
                   const AdamW& a, const AdamWSums& sums) {
  checks::adamw(param, m, v, grad, weights, a, sums);
  Values P = ref::load(param), first = ref::load(m), second = ref::load(v);
  const Values G = ref::load(grad);
  const double correction1 = 1.0 - std::pow(a.beta1, static_cast<double>(a.step));
  const double correction2 = 1.0 - std::pow(a.beta2, static_cast<double>(a.step));
  for (size_t i = 0; i < P.size(); ++i) {
    const double g = G[i] * a.grad_scale;
    first[i] = a.beta1 * first[i] + (1.0 - a.beta1) * g;
    second[i] = a.beta2 * second[i] + (1.0 - a.beta2) * g * g;
    P[i] -= a.lr * (first[i] / correction1 / (std::sqrt(second[i] / correction2) + a.eps) + a.weight_decay * P[i]);
  }
  ref::store(param, P);
  ref::store(m, first);
  ref::store(v, second);
  if (weights) ref::store(weights, ref::load(param));  // a copy of the new param
  if (sums.gradient) piece_sums(sums.gradient, grad);
  if (!sums.bits) return;
  zero(sums.bits);
  const Tensor* const written[] = {&param, &m, &v, &weights};
  for (int64_t i = 0; i < 4; ++i)
    if (*written[i]) bit_sums(sums.bits.slice(i, 1).reshaped({2}), *written[i]);
}

}  // namespace fp
