#include "cuda/runtime/available.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <fstream>

#include "cuda/rules/driver.h"

namespace fp::cuda {

std::string cuda_unavailable(int index) {
  DriverAnswer answer;
  answer.runtime_version = CUDART_VERSION;
  if (cudaDriverGetVersion(&answer.driver_version) != cudaSuccess) answer.driver_version = 0;
  std::ifstream module("/proc/driver/nvidia/version");
  if (std::string line; std::getline(module, line)) answer.kernel_module = module_version(line);

  cudaError_t error = cudaGetDeviceCount(&answer.devices);
  if (error == cudaSuccess && index < answer.devices) {
    cudaDeviceProp facts{};
    error = cudaGetDeviceProperties(&facts, index);
    answer.name = facts.name;
    answer.compute_major = facts.major;
    answer.compute_minor = facts.minor;
  }
  (void)cudaGetLastError();  // clears an error of the query, so that the next launch does not report it
  if (error == cudaErrorNoDevice)
    answer.devices = 0;
  else if (error != cudaSuccess)
    answer.error = fmt::format("{}: {}", cudaGetErrorName(error), cudaGetErrorString(error));
  return unavailable_reason(answer, index, FP_CUDA_ARCHS);
}

}  // namespace fp::cuda
