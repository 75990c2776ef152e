// Error checks of CUDA calls. Every CUDA runtime call is made as FP_CUDA(cudaMemcpyAsync(...)). A failure throws
// DeviceError with the call as written, the error's name and text, the rank and the device; running out of device
// memory throws ConfigError.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

namespace fp::cuda {

[[noreturn]] void fail_cuda(cudaError_t, const char* call, const char* file, int line);

// Throw ConfigError: `bytes` bytes of device memory, or of pinned host memory, are not available.
[[noreturn]] void fail_memory(size_t bytes);
[[noreturn]] void fail_pinned_memory(size_t bytes);

// Throws DeviceError for a failed library call. `error` is the library's text, to which " on rank 3, GPU 1" is added.
[[noreturn]] void fail_library(const std::string& error, const char* call, const char* file, int line);

// Checks the result of a kernel launch (cuda/device/launch.h).
void check_launch(cudaError_t, const char* kernel);

inline void check_cuda(cudaError_t error, const char* call, const char* file, int line) {
  if (error != cudaSuccess) [[unlikely]]
    fail_cuda(error, call, file, line);
}

}  // namespace fp::cuda

#define FP_CUDA(call) ::fp::cuda::check_cuda((call), #call, __FILE__, __LINE__)
