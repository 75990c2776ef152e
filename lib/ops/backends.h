// Factories of the Ops implementations. Only apps/ and tests/ name concrete backends.
#pragma once

#include <memory>
#include <string>

#include "ops/ops.h"

namespace fp {

// The reference backend and oracle of the tests: plain loops, fp32 storage honoured, sums in double. Slow.
std::unique_ptr<Ops> make_ref_ops();

// The CPU backend: kernels for this CPU's vector and tile instructions. A thread for each lane
// copies between the tensors of "device" and "host" memory.
std::unique_ptr<Ops> make_cpu_ops(const CopySettings& = {});

// The CUDA backend: own kernels, cuBLASLt and cuDNN on NVIDIA GPU `index` of those visible to this process. Throws
// ConfigError with the reason and what to do when that GPU cannot be used.
std::unique_ptr<Ops> make_cuda_ops(int index);
// Returns an empty string when make_cuda_ops(index) can work; else one line on what is missing: CUDA in the build, the
// driver, or the device.
std::string cuda_unavailable(int index);

}  // namespace fp
