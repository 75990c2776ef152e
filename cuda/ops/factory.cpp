// The CUDA factories of lib/ops/backends.h; cuda/stub has those of builds without CUDA.
#include "cuda/ops/cuda_ops.h"
#include "cuda/runtime/available.h"
#include "ops/backends.h"

namespace fp {

std::unique_ptr<Ops> make_cuda_ops(int index) { return std::make_unique<CudaOps>(index, make_cpu_ops()); }
std::string cuda_unavailable(int index) { return cuda::cuda_unavailable(index); }

}  // namespace fp
