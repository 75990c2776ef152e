// Concrete backends, by the names of the run spec.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace fp {

// Legal names: those of run.device.
extern const std::vector<std::string> kDevices;

// auto: a GPU where one can be used, else the CPU, said in one line of the log. cuda: ConfigError with the reason where
// none can. Of several GPUs the one whose index is that of this rank among those of its host; where there are fewer,
// the first (a launcher may show each rank only its own). Also sets the number of threads (0: the cores this process
// may use).
std::unique_ptr<Ops> open_device(const std::string& device, int threads, int local_rank = 0);

}  // namespace fp
