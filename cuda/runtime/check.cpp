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

std::string free_memory() {
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return "how much is free is not known";
  return fmt::format("{} of {} MiB are free", free >> 20, total >> 20);
}

}  // namespace

void fail_cuda(cudaError_t error, const char* call, const char* file, int line) {
  (void)cudaGetLastError();  // clears an error that is not sticky, so that the next launch does not report it again
  const std::string text =
      fmt::format("{}: {} ({}): {}", call, cudaGetErrorName(error), cudaGetErrorString(error), where(file, line));
  if (error == cudaErrorMemoryAllocation) throw ConfigError(text + "; " + free_memory());
  throw DeviceError(text);
}

void fail_memory(size_t bytes) {
  (void)cudaGetLastError();
  throw ConfigError(fmt::format("cannot allocate {} MiB of GPU memory, {}: a smaller micro-batch needs less",
                                (bytes + (size_t{1} << 20) - 1) >> 20, free_memory()));
}

void fail_pinned_memory(size_t bytes) {
  (void)cudaGetLastError();
  throw ConfigError(
      fmt::format("cannot allocate {} MiB of pinned host memory: the host has too little free, or limits what is "
                  "locked (ulimit -l)",
                  (bytes + (size_t{1} << 20) - 1) >> 20));
}

void check_launch(cudaError_t error, const char* kernel) { check_cuda(error, kernel, "launch", 0); }

void fail_library(const std::string& error, const char* call, const char* file, int line) {
  throw DeviceError(fmt::format("{}: {}: {}", call, error, where(file, line)));
}

}  // namespace fp::cuda
