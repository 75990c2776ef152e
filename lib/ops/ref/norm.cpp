#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {

using ref::Values;

void RefOps::run(const calls::Norm& call) {
  const int64_t M = call.x.rows(), h = call.x.cols();
  const Values G = ref::load(call.gain), bias_values = ref::load(call.bias);
  Values S = ref::load(call.x);
  if (call.residual) {
    const Values R = ref::load(call.residual);
    // The stored (rounded) sum is normalised, so that the backward pass sees the same values.
    for (int64_t i = 0; i < M * h; ++i) S[i] = ref::rounded(S[i] + R[i], call.x.dtype);
    ref::store(call.sum, S);
  }
  Values Y(static_cast<size_t>(M * h)), statistics(static_cast<size_t>(2 * M));
  for (int64_t m = 0; m < M; ++m) {
    const double* s = &S[m * h];
    double mean = 0.0, variance = 0.0;
    if (call.spec.kind == Norm::layernorm)
      for (int64_t c = 0; c < h; ++c) mean += s[c] / static_cast<double>(h);
    for (int64_t c = 0; c < h; ++c) variance += (s[c] - mean) * (s[c] - mean) / static_cast<double>(h);
    const double inverse_std = 1.0 / std::sqrt(variance + call.spec.eps);
    for (int64_t c = 0; c < h; ++c)
      Y[m * h + c] =
          ref::rounded((s[c] - mean) * inverse_std, call.x.dtype) * G[c] + (call.bias ? bias_values[c] : 0.0);
    statistics[2 * m] = mean;
    statistics[2 * m + 1] = inverse_std;
  }
  ref::store(call.y, Y);
  ref::store(call.stats, statistics);
}

void RefOps::run(const calls::NormBackwardInput& call) {
  const int64_t M = call.x.rows(), h = call.x.cols();
  const Values X = ref::load(call.x), DY = ref::load(call.dy), G = ref::load(call.gain), S = ref::load(call.stats);
  Values DX(static_cast<size_t>(M * h));
  for (int64_t m = 0; m < M; ++m) {
    const double mean = S[2 * m], inverse_std = S[2 * m + 1];
    double mean_g = 0.0, mean_gn = 0.0;  // means of g = dy*gain and of g times the normalised value
    for (int64_t c = 0; c < h; ++c) {
      const double g = DY[m * h + c] * G[c], n = (X[m * h + c] - mean) * inverse_std;
      if (call.spec.kind == Norm::layernorm) mean_g += g / static_cast<double>(h);
      mean_gn += g * n / static_cast<double>(h);
    }
    for (int64_t c = 0; c < h; ++c) {
      const double g = DY[m * h + c] * G[c], n = (X[m * h + c] - mean) * inverse_std;
      DX[m * h + c] = inverse_std * (g - mean_g - n * mean_gn);
    }
  }
  ref::store(call.dx, DX, call.write);
}

// The gain was applied to the normalised value as rounded to the compute type.
void RefOps::run(const calls::NormBackwardWeight& call) {
  const int64_t M = call.x.rows(), h = call.x.cols();
  const Values X = ref::load(call.x), DY = ref::load(call.dy), S = ref::load(call.stats);
  Values dgain_values(static_cast<size_t>(h)), dbias_values(static_cast<size_t>(h));
  for (int64_t m = 0; m < M; ++m)
    for (int64_t c = 0; c < h; ++c) {
      dgain_values[c] += DY[m * h + c] * ref::rounded((X[m * h + c] - S[2 * m]) * S[2 * m + 1], call.x.dtype);
      dbias_values[c] += DY[m * h + c];
    }
  ref::store(call.dgain, dgain_values, call.write);
  if (call.dbias) ref::store(call.dbias, dbias_values, call.write);
}

}  // namespace fp
