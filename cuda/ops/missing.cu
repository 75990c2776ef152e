// Ops whose kernels are still to be written. Each leaves this file with its kernel.
#include "base/error.h"
#include "cuda/ops/cuda_ops.h"

namespace fp {

void CudaOps::bias_backward(const Tensor&, const Tensor&, Write) { FP_CHECK(false, "bias_backward: no kernel yet"); }
void CudaOps::embedding(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, double) {
  FP_CHECK(false, "embedding: no kernel yet");
}
void CudaOps::embedding_backward(const Tensor&, const Tensor&, const Tensor&, double) {
  FP_CHECK(false, "embedding_backward: no kernel yet");
}
void CudaOps::norm(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                   const Tensor&, const NormSpec&) {
  FP_CHECK(false, "norm: no kernel yet");
}
void CudaOps::norm_backward_input(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                  const NormSpec&, Write) {
  FP_CHECK(false, "norm_backward_input: no kernel yet");
}
void CudaOps::norm_backward_weight(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                   const NormSpec&, Write) {
  FP_CHECK(false, "norm_backward_weight: no kernel yet");
}
void CudaOps::activation(const Tensor&, const Tensor&, const ActivationSpec&) {
  FP_CHECK(false, "activation: no kernel yet");
}
void CudaOps::activation_backward(const Tensor&, const Tensor&, const Tensor&, const ActivationSpec&) {
  FP_CHECK(false, "activation_backward: no kernel yet");
}
void CudaOps::add(const Tensor&, const Tensor&, const Tensor&) { FP_CHECK(false, "add: no kernel yet"); }
void CudaOps::dropout(const Tensor&, const Tensor&, const Tensor&, int64_t, const Dropout&) {
  FP_CHECK(false, "dropout: no kernel yet");
}
void CudaOps::split_qkv(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const HeadLayout&, const Rope&,
                        const Tensor&) {
  FP_CHECK(false, "split_qkv: no kernel yet");
}
void CudaOps::split_qkv_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const HeadLayout&,
                                 const Rope&, const Tensor&) {
  FP_CHECK(false, "split_qkv_backward: no kernel yet");
}
}  // namespace fp
