// There is no cuDNN on the CPU: the list of implementations begins with fptrain's own.
#include "cuda/ops/attention/attention.h"

namespace fp::cuda {

std::unique_ptr<AttentionKernel> make_cudnn_attention(Device&) { return nullptr; }

}  // namespace fp::cuda
