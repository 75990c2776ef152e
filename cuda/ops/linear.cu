// Matrix products of a linear layer by the runtime's Gemm: y = x w^T + bias, dx = dy w, dw = dy^T x. Gelu, its gradient
// and the gradient of the bias are fused where the library supports it.
#include "cuda/ops/cuda_ops.h"
#include "ops/checks.h"

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

void CudaOps::linear(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias) {
  checks::linear(y, x, w, bias);
  gemm_.run(forward(y, x, w, bias));
}

void CudaOps::linear_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w) {
  checks::linear_backward_input(dx, dy, w);
  gemm_.run(backward_input(dx, dy, w));
}

void CudaOps::linear_backward_weight(const Tensor& dw, const Tensor& dy, const Tensor& x, Write write) {
  checks::linear_backward_weight(dw, dy, x);
  gemm_.run(backward_weight(dw, dy, x, write));
}

void CudaOps::linear_gelu(const Tensor& y, const Tensor& u, const Tensor& x, const Tensor& w, const Tensor& bias) {
  checks::linear(u, x, w, bias);
  checks::activation(y, u, {Activation::gelu});
  GemmCall g = forward(y, x, w, bias);
  g.epilogue = Epilogue::gelu;
  g.aux = u.data;
  gemm_.takes(g) ? gemm_.run(g) : Ops::linear_gelu(y, u, x, w, bias);
}

void CudaOps::linear_backward_input_gelu(const Tensor& du, const Tensor& dy, const Tensor& w, const Tensor& u) {
  checks::linear_backward_input(du, dy, w);
  checks::activation_backward(du, du, u, {Activation::gelu});
  GemmCall g = backward_input(du, dy, w);
  g.epilogue = Epilogue::gelu_backward;
  g.aux = u.data;
  gemm_.takes(g) ? gemm_.run(g) : Ops::linear_backward_input_gelu(du, dy, w, u);
}

void CudaOps::linear_backward_weight_bias(const Tensor& dw, const Tensor& db, const Tensor& dy, const Tensor& x,
                                          Write dw_write, Write db_write) {
  checks::linear_backward_weight(dw, dy, x);
  checks::bias_backward(db, dy);
  GemmCall g = backward_weight(dw, dy, x, dw_write);
  g.epilogue = Epilogue::bias_gradient_of_a;
  g.vector = db.data;
  dw_write == db_write&& gemm_.takes(g) ? gemm_.run(g)
                                        : Ops::linear_backward_weight_bias(dw, db, dy, x, dw_write, db_write);
}

}  // namespace fp
