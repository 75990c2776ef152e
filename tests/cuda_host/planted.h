// Kernels with one planted error each, and the same kernels without it, for tests of the execution layer. All take n
// numbers, and most run one block of threads.
#pragma once

#include <string>

namespace fp::cuda::planted {

// Runs the kernel of this name on n numbers and returns the problems that the layer reports. `result` (may be null)
// receives the kernel's results.
std::string run_planted(const std::string& name, int n, float* result = nullptr);

}  // namespace fp::cuda::planted
