// Owning buffers: device memory, and pinned host memory, which the device copies from and to asynchronously.
#pragma once

#include <algorithm>
#include <cstddef>

#include "cuda/runtime/check.h"

namespace fp::cuda {

// Memory of the current device, 256-byte aligned. The constructor throws ConfigError when there is not enough.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t bytes) {
    const cudaError_t error = cudaMalloc(&data_, std::max<size_t>(bytes, 1));
    if (error == cudaErrorMemoryAllocation) fail_memory(bytes);
    check_cuda(error, "cudaMalloc", __FILE__, __LINE__);
  }
  ~DeviceBuffer() { cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

// Pinned host memory. The constructor throws ConfigError when the host has too little memory or refuses to pin it.
class PinnedBuffer {
 public:
  explicit PinnedBuffer(size_t bytes) {
    const cudaError_t error = cudaMallocHost(&data_, std::max<size_t>(bytes, 1));
    if (error == cudaErrorMemoryAllocation) fail_pinned_memory(bytes);
    check_cuda(error, "cudaMallocHost", __FILE__, __LINE__);
  }
  ~PinnedBuffer() { cudaFreeHost(data_); }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

}  // namespace fp::cuda
