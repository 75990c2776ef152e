// Factories of the Ops implementations. Only apps/ and tests/ name concrete backends.
#pragma once

#include <memory>
#include <string>

#include "ops/ops.h"

namespace fp {

// Plain loops, fp32 storage honoured, sums in double: the oracle. Slow.
std::unique_ptr<Ops> make_ref_ops();

// oneDNN GEMMs, OpenMP and vectorised kernels on this CPU.
std::unique_ptr<Ops> make_cpu_ops();

// Kernels, cuBLASLt and cuDNN on NVIDIA GPU `index` of those visible to this process. ConfigError where there is none,
// with the reason and what to do.
std::unique_ptr<Ops> make_cuda_ops(int index);
// Empty when make_cuda_ops can work; else what is missing, in one line: the build, the driver, a device.
std::string cuda_unavailable(int index);

}  // namespace fp
