#include "device.h"

#include "base/error.h"
#include "base/parallel.h"
#include "ops/backends.h"

namespace fp {

std::unique_ptr<Ops> open_device(const std::string& device, int threads) {
  set_threads(threads);
  if (device == "cpu") return make_cpu_ops();
  if (device == "ref") return make_ref_ops();
  throw ConfigError(fmt::format("run.device: '{}' is not a device of this build; legal: cpu, ref", device));
}

}  // namespace fp
