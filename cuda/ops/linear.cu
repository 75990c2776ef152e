// Products of a layer by the Gemm of the runtime: y = x w^T + bias, dx = dy w, dw = dy^T x.
#include "cuda/ops/cuda_ops.h"
#include "ops/checks.h"

namespace fp {

using cuda::Epilogue;
using cuda::GemmCall;

void CudaOps::linear(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias) {
  checks::linear(y, x, w, bias);
  GemmCall g;
  g.operands = g.result = x.dtype;
  g.b_transposed = true;
  g.m = x.rows(), g.n = w.rows(), g.k = x.cols();
  g.a = x.data, g.b = w.data, g.c = y.data;
  if (bias) g.epilogue = Epilogue::bias, g.vector = bias.data;
  gemm_.run(g);
}

void CudaOps::linear_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w) {
  checks::linear_backward_input(dx, dy, w);
  GemmCall g;
  g.operands = g.result = dy.dtype;
  g.m = dy.rows(), g.n = w.cols(), g.k = w.rows();
  g.a = dy.data, g.b = w.data, g.c = dx.data;
  gemm_.run(g);
}

void CudaOps::linear_backward_weight(const Tensor& dw, const Tensor& dy, const Tensor& x, Write write) {
  checks::linear_backward_weight(dw, dy, x);
  GemmCall g;
  g.operands = dy.dtype, g.result = DType::f32;
  g.a_transposed = true;
  g.add = write == Write::add;
  g.m = dy.cols(), g.n = x.cols(), g.k = dy.rows();
  g.a = dy.data, g.b = x.data, g.c = dw.data;
  gemm_.run(g);
}

}  // namespace fp
