// The update rules of the optimizers in base/optimizer_list.h: their states and formulas, written once for the kernels
// of the CPU (on vectors) and of CUDA. The oracle `ref` has formulas of its own.
//
// A rule has its numbers in f32, which its constructor computes from UpdateOptions, and apply(), which updates one
// element `param` and its `states` by the unscaled gradient `grad`. V is float or a vector of floats; Math has
// V sqrt(V) and V sign(V), which is 0 for 0.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/optimizer_list.h"

// Functions that kernels inline: no instantiation may be shared between instruction sets.
#ifdef __CUDACC__
#define FP_RULE __host__ __device__ __forceinline__
#else
#define FP_RULE inline __attribute__((always_inline))
#endif

namespace fp {

struct UpdateOptions {
  double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
  int64_t step = 1;         // 1-based, for bias corrections
  double grad_scale = 1.0;  // factor on the gradients, applied first (clipping)
};

enum class UpdateRule : uint8_t {
#define FP_RULE_NAME(Rule, name) name,
  FP_OPTIMIZERS(FP_RULE_NAME)
#undef FP_RULE_NAME
};

namespace rules {

constexpr int kMaxStates = 2;

// Adam with decoupled weight decay (Loshchilov and Hutter, 2019). States: first and second moment of the gradient.
struct AdamW {
  static constexpr UpdateRule kRule = UpdateRule::adamw;
  static constexpr int kStates = 2;
  static constexpr const char* kStateNames[] = {"exp_avg", "exp_avg_sq"};
  static constexpr double kFlops = 15;  // per element

  float lr, beta1, beta2, one_minus_beta1, one_minus_beta2, eps, weight_decay, m_correction, v_correction, grad_scale;

  explicit AdamW(const UpdateOptions& o)
      : lr(static_cast<float>(o.lr)),
        beta1(static_cast<float>(o.beta1)),
        beta2(static_cast<float>(o.beta2)),
        one_minus_beta1(static_cast<float>(1.0 - o.beta1)),
        one_minus_beta2(static_cast<float>(1.0 - o.beta2)),
        eps(static_cast<float>(o.eps)),
        weight_decay(static_cast<float>(o.weight_decay)),
        m_correction(static_cast<float>(1.0 / (1.0 - std::pow(o.beta1, static_cast<double>(o.step))))),
        v_correction(static_cast<float>(1.0 / (1.0 - std::pow(o.beta2, static_cast<double>(o.step))))),
        grad_scale(static_cast<float>(o.grad_scale)) {}

  template <class Math, class V>
  FP_RULE void apply(V& param, V* states, const V& grad) const {
    V &m = states[0], &v = states[1];
    const V g = grad * grad_scale;
    m = m * beta1 + g * one_minus_beta1;
    v = v * beta2 + g * g * one_minus_beta2;
    const V step = m * m_correction / (Math::sqrt(v * v_correction) + eps);
    param -= (step + param * weight_decay) * lr;
  }
};

// Lion (Chen et al., 2023) with decoupled weight decay. State: the momentum.
struct Lion {
  static constexpr UpdateRule kRule = UpdateRule::lion;
  static constexpr int kStates = 1;
  static constexpr const char* kStateNames[] = {"exp_avg"};
  static constexpr double kFlops = 12;

  float lr, beta1, beta2, one_minus_beta1, one_minus_beta2, weight_decay, grad_scale;

  explicit Lion(const UpdateOptions& o)
      : lr(static_cast<float>(o.lr)),
        beta1(static_cast<float>(o.beta1)),
        beta2(static_cast<float>(o.beta2)),
        one_minus_beta1(static_cast<float>(1.0 - o.beta1)),
        one_minus_beta2(static_cast<float>(1.0 - o.beta2)),
        weight_decay(static_cast<float>(o.weight_decay)),
        grad_scale(static_cast<float>(o.grad_scale)) {}

  template <class Math, class V>
  FP_RULE void apply(V& param, V* states, const V& grad) const {
    V& m = states[0];
    const V g = grad * grad_scale;
    const V step = Math::sign(m * beta1 + g * one_minus_beta1);
    m = m * beta2 + g * one_minus_beta2;
    param -= (step + param * weight_decay) * lr;
  }
};

}  // namespace rules
}  // namespace fp
