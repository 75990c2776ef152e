#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {

using ref::Values;

void RefOps::run(const calls::Linear& call) {
  const int64_t M = call.x.rows(), K = call.x.cols(), N = call.y.cols();
  const Values X = ref::load(call.x), W = ref::load(call.w), bias_values = ref::load(call.bias);
  Values Y(static_cast<size_t>(M * N));
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) {
      double sum = call.bias ? bias_values[n] : 0.0;
      for (int64_t k = 0; k < K; ++k) sum += X[m * K + k] * W[n * K + k];
      Y[m * N + n] = sum;
    }
  ref::store(call.y, Y);
}

void RefOps::run(const calls::LinearBackwardInput& call) {
  const int64_t M = call.dy.rows(), K = call.dx.cols(), N = call.dy.cols();
  const Values DY = ref::load(call.dy), W = ref::load(call.w);
  Values DX(static_cast<size_t>(M * K));
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t k = 0; k < K; ++k) DX[m * K + k] += DY[m * N + n] * W[n * K + k];
  ref::store(call.dx, DX);
}

void RefOps::run(const calls::LinearBackwardWeight& call) {
  const int64_t M = call.dy.rows(), K = call.x.cols(), N = call.dy.cols();
  const Values DY = ref::load(call.dy), X = ref::load(call.x);
  Values DW(static_cast<size_t>(N * K));
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t k = 0; k < K; ++k) DW[n * K + k] += DY[m * N + n] * X[m * K + k];
  ref::store(call.dw, DW, call.write);
}

void RefOps::run(const calls::BiasBackward& call) {
  const int64_t M = call.dy.rows(), N = call.dy.cols();
  const Values DY = ref::load(call.dy);
  Values DB(static_cast<size_t>(N));
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) DB[n] += DY[m * N + n];
  ref::store(call.db, DB, call.write);
}

}  // namespace fp
