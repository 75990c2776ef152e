// The CUDA backend on the execution layer.
#include "backends.h"
#include "cuda/ops/cuda_ops.h"
#include "cuda_host/execution.h"
#include "cuda_host/memory.h"
#include "ops/backends.h"

namespace fp::test {

const std::vector<Backend>& backends() {
  static const std::vector<Backend> all = [] {
    Backend b;
    b.name = "cuda-host";
    auto ops = std::make_shared<CudaOps>(0, make_cpu_ops());
    ops->device().reserve_scratch(size_t{64} << 20);
    b.ops = ops;
    b.allocate = [](size_t bytes) { return cuda::host::allocate(bytes); };
    b.host_memory = false;
    b.both_alignments = true;
    b.emulated = true;
    b.mark = [](void* address, size_t bytes, Mark mark) {
      if (mark == Mark::forbidden) cuda::host::forbid(address, bytes);
      if (mark == Mark::allowed) cuda::host::allow(address, bytes);
      if (mark == Mark::unwritten) cuda::host::make_unwritten(address, bytes);
    };
    b.problems = cuda::host::take_problems;
    return std::vector<Backend>{b};
  }();
  return all;
}

}  // namespace fp::test
