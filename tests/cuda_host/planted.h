// Kernels with one mistake each, and the same without it: what the execution layer has to tell apart. All take a block
// of threads and n numbers.
#pragma once

#include <string>

namespace fp::cuda::planted {

// Runs the kernel of this name on n numbers and returns what the layer complained of. `result`: a few of its numbers.
std::string run_planted(const std::string& name, int n, float* result = nullptr);

}  // namespace fp::cuda::planted
