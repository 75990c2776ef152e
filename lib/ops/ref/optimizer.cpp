#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {

using ref::Values;

void RefOps::run(const calls::SumSquares& call) {
  const Values X = ref::load(call.x);
  Values S;
  for (const IndexRange& segment : call.segments) {
    double sum = 0.0;
    for (int64_t i = segment.first; i < segment.first + segment.count; ++i) sum += X[i] * X[i];
    S.push_back(sum);
  }
  ref::store(call.sums, S);
}

namespace {

// The values of the tensors of an update. store() writes the new ones and computes the copy and the sums.
template <class Call>
struct UpdateValues {
  const Call& call;
  Values param = ref::load(call.param), grad = ref::load(call.grad);
  std::array<Values, std::tuple_size_v<decltype(Call::states)>> states;

  explicit UpdateValues(const Call& c) : call(c) {
    for (size_t k = 0; k < states.size(); ++k) states[k] = ref::load(call.states[k]);
    for (double& g : grad) g *= call.options.grad_scale;
  }
  template <class Run>
  void store(const Run& run) {
    ref::store(call.param, param);
    for (size_t k = 0; k < states.size(); ++k) ref::store(call.states[k], states[k]);
    if (call.weights) ref::store(call.weights, ref::load(call.param));  // a copy of the new param
    if (call.sums.gradient) run(calls::PieceSums{call.sums.gradient, call.grad});
    if (!call.sums.bits) return;
    run(calls::Zero{call.sums.bits});
    int64_t row = 0;
    const auto sum = [&](const Tensor& written) {
      if (written) run(calls::BitSums{call.sums.bits.slice(row, 1).reshaped({2}), written});
      ++row;
    };
    sum(call.param);
    for (const Tensor& state : call.states) sum(state);
    sum(call.weights);
  }
};

}  // namespace

void RefOps::run(const calls::AdamW& call) {
  UpdateValues u(call);
  Values &P = u.param, &first = u.states[0], &second = u.states[1];
  const UpdateOptions& a = call.options;
  const double correction1 = 1.0 - std::pow(a.beta1, static_cast<double>(a.step));
  const double correction2 = 1.0 - std::pow(a.beta2, static_cast<double>(a.step));
  for (size_t i = 0; i < P.size(); ++i) {
    const double g = u.grad[i];
    first[i] = a.beta1 * first[i] + (1.0 - a.beta1) * g;
    second[i] = a.beta2 * second[i] + (1.0 - a.beta2) * g * g;
    P[i] -= a.lr * (first[i] / correction1 / (std::sqrt(second[i] / correction2) + a.eps) + a.weight_decay * P[i]);
  }
  u.store([this](const auto& part) { run(part); });
}

void RefOps::run(const calls::Lion& call) {
  UpdateValues u(call);
  Values &P = u.param, &momentum = u.states[0];
  const UpdateOptions& a = call.options;
  for (size_t i = 0; i < P.size(); ++i) {
    const double mixed = a.beta1 * momentum[i] + (1.0 - a.beta1) * u.grad[i];
    const double direction = mixed > 0 ? 1.0 : mixed < 0 ? -1.0 : 0.0;
    P[i] -= a.lr * (direction + a.weight_decay * P[i]);
    momentum[i] = a.beta2 * momentum[i] + (1.0 - a.beta2) * u.grad[i];
  }
  u.store([this](const auto& part) { run(part); });
}

}  // namespace fp
