#include "device.h"

#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "base/parallel.h"
#include "ops/backends.h"

namespace fp {

const std::vector<std::string> kDevices(names_of(RunDevice()).begin(), names_of(RunDevice()).end());

RunDevice device_named(std::string_view name) {
  const auto device = named<RunDevice>(name);
  FP_CHECK(device, "device '{}'", name);
  return *device;
}

namespace {

bool has_gpu() {
  std::error_code unknown;
  return std::filesystem::exists("/dev/nvidiactl", unknown) || std::filesystem::exists("/proc/driver/nvidia", unknown);
}

}  // namespace

const Ops& cpu_backend() {
  static const std::unique_ptr<Ops> cpu = make_cpu_ops();
  return *cpu;
}

std::unique_ptr<Ops> open_device(RunDevice device, int threads, int local_rank, bool says_why) {
  set_threads(threads);
  if (device == RunDevice::cpu) return make_cpu_ops();
  if (device == RunDevice::ref) return make_ref_ops();
  int devices = 0;  // up to the one of this rank; with fewer than ranks, these share them evenly
  while (devices <= local_rank && cuda_unavailable(devices).empty()) ++devices;
  const int index = devices == 0 ? 0 : local_rank % devices;
  const std::string missing = cuda_unavailable(index);
  if (missing.empty() || device == RunDevice::cuda) return make_cuda_ops(index);
  if (says_why || has_gpu()) log::info("device: cpu, as no GPU can be used: {}", missing);
  return make_cpu_ops();
}

}  // namespace fp
