#include "ops/checks.h"
#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {

using ref::Values;

void RefOps::norm(const Tensor& y, const Tensor& sum, const Tensor& stats, const Tensor& x, const Tensor& residual,
                  const Tensor& gain, const Tensor& bias, const NormSpec& spec) {
  checks::norm(y, sum, stats, x, residual, gain, bias, spec);
  const int64_t M = x.rows(), h = x.cols();
  const Values G = ref::load(gain), bias_values = ref::load(bias);
  Values S = ref::load(x);
  if (residual) {
    const Values R = ref::load(residual);
    // The stored (rounded) sum is normalised, so that the backward pass sees the same values.
    for (int64_t i = 0; i < M * h; ++i) S[i] = ref::rounded(S[i] + R[i], x.dtype);
    ref::store(sum, S);
  }
  Values Y(static_cast<size_t>(M * h)), statistics(static_cast<size_t>(2 * M));
  for (int64_t m = 0; m < M; ++m) {
    const double* s = &S[m * h];
    double mean = 0.0, variance = 0.0;
    if (spec.kind == Norm::layernorm)
      for (int64_t c = 0; c < h; ++c) mean += s[c] / static_cast<double>(h);
    for (int64_t c = 0; c < h; ++c) variance += (s[c] - mean) * (s[c] - mean) / static_cast<double>(h);
    const double inverse_std = 1.0 / std::sqrt(variance + spec.eps);
    for (int64_t c = 0; c < h; ++c)
      Y[m * h + c] = ref::rounded((s[c] - mean) * inverse_std, x.dtype) * G[c] + (bias ? bias_values[c] : 0.0);
    statistics[2 * m] = mean;
    statistics[2 * m + 1] = inverse_std;
  }
  ref::store(y, Y);
  ref::store(stats, statistics);
}

void RefOps::norm_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& stats,
                                 const Tensor& gain, const NormSpec& spec, Write write) {
  checks::norm_backward_input(dx, dy, x, stats, gain);
  const int64_t M = x.rows(), h = x.cols();
  const Values X = ref::load(x), DY = ref::load(dy), G = ref::load(gain), S = ref::load(stats);
  Values DX(static_cast<size_t>(M * h));
  for (int64_t m = 0; m < M; ++m) {
    const double mean = S[2 * m], inverse_std = S[2 * m + 1];
    double mean_g = 0.0, mean_gn = 0.0;  // means of g = dy*gain and of g times the normalised value
    for (int64_t c = 0; c < h; ++c) {
      const double g = DY[m * h + c] * G[c], n = (X[m * h + c] - mean) * inverse_std;
      if (spec.kind == Norm::layernorm) mean_g += g / static_cast<double>(h);
      mean_gn += g * n / static_cast<double>(h);
    }
    for (int64_t c = 0; c < h; ++c) {
      const double g = DY[m * h + c] * G[c], n = (X[m * h + c] - mean) * inverse_std;
      DX[m * h + c] = inverse_std * (g - mean_g - n * mean_gn);
    }
  }
  ref::store(dx, DX, write);
}

// The gain was applied to the normalised value as rounded to the compute type.
void RefOps::norm_backward_weight(const Tensor& dgain, const Tensor& dbias, const Tensor& dy, const Tensor& x,
                                  const Tensor& stats, const NormSpec&, Write write) {
  checks::norm_backward_weight(dgain, dbias, dy, x, stats);
  const int64_t M = x.rows(), h = x.cols();
  const Values X = ref::load(x), DY = ref::load(dy), S = ref::load(stats);
  Values dgain_values(static_cast<size_t>(h)), dbias_values(static_cast<size_t>(h));
  for (int64_t m = 0; m < M; ++m)
    for (int64_t c = 0; c < h; ++c) {
      dgain_values[c] += DY[m * h + c] * ref::rounded((X[m * h + c] - S[2 * m]) * S[2 * m + 1], x.dtype);
      dbias_values[c] += DY[m * h + c];
    }
  ref::store(dgain, dgain_values, write);
  if (dbias) ref::store(dbias, dbias_values, write);
}

}  // namespace fp
