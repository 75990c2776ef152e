// Ops whose kernels are still to be written. Each leaves this file with its kernel.
#include "base/error.h"
#include "cuda/ops/attention/attention.h"
#include "cuda/ops/cuda_ops.h"

namespace fp {

void CudaOps::attention(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                        const Tensor&, const AttentionSpec&) {
  FP_CHECK(false, "attention: no kernel yet");
}
void CudaOps::attention_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                 const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                 const Tensor&, const AttentionSpec&) {
  FP_CHECK(false, "attention_backward: no kernel yet");
}

namespace cuda {
std::unique_ptr<AttentionKernel> make_flash_attention() { return nullptr; }
std::unique_ptr<AttentionKernel> make_simt_attention() { return nullptr; }
}  // namespace cuda

}  // namespace fp
