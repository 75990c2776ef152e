#include "cuda/runtime/check.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/log.h"

namespace fp::cuda {
namespace {

std::string where(const char* file, int line) {
  int device = -1;
  const bool known = cudaGetDevice(&device) == cudaSuccess;
  return fmt::format("rank {}, GPU {}, {}:{}", log::rank(), known ? std::to_string(device) : "unknown",
                     std::filesystem::path(file).filename().string(), line);
}

}  // namespace

void fail_cuda(cudaError_t error, const char* call, const char* file, int line) {
  (void)cudaGetLastError();  // an error that does not stick is not reported again by the next launch
  const std::string text =
      fmt::format("{}: {} ({}): {}", call, cudaGetErrorName(error), cudaGetErrorString(error), where(file, line));
  if (error != cudaErrorMemoryAllocation) throw DeviceError(text);
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) throw ConfigError(text + "; not enough memory");
  throw ConfigError(fmt::format("{}; {} of {} MiB of device memory are free", text, free >> 20, total >> 20));
}

void fail_library(const std::string& error, const char* call, const char* file, int line) {
  throw DeviceError(fmt::format("{}: {}: {}", call, error, where(file, line)));
}

}  // namespace fp::cuda
