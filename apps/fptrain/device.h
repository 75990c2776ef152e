// Concrete backends, by the names of the run spec.
#pragma once

#include <memory>
#include <string>

#include "ops/ops.h"

namespace fp {

// run.device: ref | cpu. Also sets the number of threads (0: the cores this process may use).
std::unique_ptr<Ops> open_device(const std::string& device, int threads);

}  // namespace fp
