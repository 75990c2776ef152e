// Matrix products of a linear layer by the runtime's Gemm: y = x w^T + bias, dx = dy w, dw = dy^T x. The bias, gelu and
// its gradient are fused where the library supports it; the gradient of the bias is not, as that took 12 % longer on an
// H200 than the product and column_sums().
#include "cuda/ops/cuda_ops.h"

namespace fp {
namespace {

using cuda::Epilogue;
using cuda::GemmCall;

GemmCall forward(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias) {
  GemmCall g;
  g.operands = g.result = x.dtype;
  g.b_transposed = true;
  g.m = x.rows(), g.n = w.rows(), g.k = x.cols();
  g.a = x.data, g.b = w.data, g.c = y.data;
  if (bias) g.epilogue = Epilogue::bias, g.vector = bias.data;
  return g;
}

GemmCall backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w) {
  GemmCall g;
  g.operands = g.result = dy.dtype;
  g.m = dy.rows(), g.n = w.cols(), g.k = w.rows();
  g.a = dy.data, g.b = w.data, g.c = dx.data;
  return g;
}

GemmCall backward_weight(const Tensor& dw, const Tensor& dy, const Tensor& x, Write write) {
  GemmCall g;
  g.operands = dy.dtype, g.result = DType::f32;
  g.a_transposed = true;
  g.add = write == Write::add;
  g.m = dy.cols(), g.n = x.cols(), g.k = dy.rows();
  g.a = dy.data, g.b = x.data, g.c = dw.data;
  return g;
}

}  // namespace

void CudaOps::run(const calls::Linear& call) { gemm_.run(forward(call.y, call.x, call.w, call.bias)); }

void CudaOps::run(const calls::LinearBackwardInput& call) { gemm_.run(backward_input(call.dx, call.dy, call.w)); }

void CudaOps::run(const calls::LinearBackwardWeight& call) {
  gemm_.run(backward_weight(call.dw, call.dy, call.x, call.write));
}

void CudaOps::run(const calls::LinearGelu& call) {
  GemmCall g = forward(call.y, call.x, call.w, call.bias);
  g.epilogue = Epilogue::gelu;
  g.aux = call.u.data;
  gemm_.supports(g) ? gemm_.run(g) : Ops::run(call);
}

void CudaOps::run(const calls::LinearBackwardInputGelu& call) {
  GemmCall g = backward_input(call.du, call.dy, call.w);
  g.epilogue = Epilogue::gelu_backward;
  g.aux = call.u.data;
  gemm_.supports(g) ? gemm_.run(g) : Ops::run(call);
}

}  // namespace fp
