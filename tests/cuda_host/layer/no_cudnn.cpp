// The CPU has no cuDNN: the list of implementations begins with fptrain's own kernels.
#include "cuda/ops/attention/attention.h"

namespace fp::cuda {

std::unique_ptr<AttentionKernel> make_cudnn_attention(Device&) { return nullptr; }

}  // namespace fp::cuda
