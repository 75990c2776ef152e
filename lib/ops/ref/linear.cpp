#include "ops/checks.h"
#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {

using ref::Values;

void RefOps::linear(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias) {
  checks::linear(y, x, w, bias);
  const int64_t M = x.rows(), K = x.cols(), N = y.cols();
  const Values X = ref::load(x), W = ref::load(w), bias_values = ref::load(bias);
  Values Y(static_cast<size_t>(M * N));
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) {
      double sum = bias ? bias_values[n] : 0.0;
      for (int64_t k = 0; k < K; ++k) sum += X[m * K + k] * W[n * K + k];
      Y[m * N + n] = sum;
    }
  ref::store(y, Y);
}

void RefOps::linear_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w) {
  checks::linear_backward_input(dx, dy, w);
  const int64_t M = dy.rows(), K = dx.cols(), N = dy.cols();
  const Values DY = ref::load(dy), W = ref::load(w);
  Values DX(static_cast<size_t>(M * K));
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t k = 0; k < K; ++k) DX[m * K + k] += DY[m * N + n] * W[n * K + k];
  ref::store(dx, DX);
}

void RefOps::linear_backward_weight(const Tensor& dw, const Tensor& dy, const Tensor& x, Write write) {
  checks::linear_backward_weight(dw, dy, x);
  const int64_t M = dy.rows(), K = x.cols(), N = dy.cols();
  const Values DY = ref::load(dy), X = ref::load(x);
  Values DW(static_cast<size_t>(N * K));
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t k = 0; k < K; ++k) DW[n * K + k] += DY[m * N + n] * X[m * K + k];
  ref::store(dw, DW, write);
}

void RefOps::bias_backward(const Tensor& db, const Tensor& dy, Write write) {
  checks::bias_backward(db, dy);
  const int64_t M = dy.rows(), N = dy.cols();
  const Values DY = ref::load(dy);
  Values DB(static_cast<size_t>(N));
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) DB[n] += DY[m * N + n];
  ref::store(db, DB, write);
}

}  // namespace fp
