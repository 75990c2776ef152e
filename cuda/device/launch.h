// Kernel launches: launch<kernel<T>>({grid, block, shared}, stream, arguments...), on a GPU and on the CPU under test.
#pragma once

#include <utility>

#include "base/error.h"
#include "cuda/device/platform.h"

namespace fp::cuda {

struct Grid {
  dim3 blocks;
  dim3 threads;
  size_t shared_bytes = 0;  // dynamic
};

#ifdef FP_CUDA_HOST

// The name of a kernel as the compiler spells it, with template arguments.
template <auto Kernel>
const host::KernelName& kernel_name() {
  static const host::KernelName name{__PRETTY_FUNCTION__};
  return name;
}
// Registers every kernel instance before main(), launched or not.
template <auto Kernel>
inline const host::KernelName& known_kernel = kernel_name<Kernel>();

template <auto Kernel, class... Args>
void launch(const Grid& grid, Stream, Args... args) {
  host::launch(known_kernel<Kernel>, grid.blocks, grid.threads, grid.shared_bytes, [&] { Kernel(args...); });
}

#elif defined(__CUDACC__)

// Throws DeviceError when a launch failed (cuda/runtime/check.h).
void check_launch(cudaError_t status, const char* kernel);

// Arguments must have exactly the types of the kernel's parameters.
template <auto Kernel, class... Args>
void launch(const Grid& grid, Stream stream, Args... args) {
  // A kernel must opt in once to more than 48 KiB of shared memory, of which it may have declared a part.
  static size_t allowed = 0;
  if (grid.shared_bytes > allowed) {
    check_launch(
        cudaFuncSetAttribute(Kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(grid.shared_bytes)),
        __PRETTY_FUNCTION__);
    allowed = grid.shared_bytes;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = stream;
  check_launch(cudaLaunchKernelEx(&config, Kernel, args...), __PRETTY_FUNCTION__);
}

#endif

}  // namespace fp::cuda
