// Creates the backend for run.device.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/choices.h"
#include "ops/ops.h"

namespace fp {

// Legal values of run.device and of flags that take its place.
extern const std::vector<std::string> kDevices;

// Returns the device with this name, which must be one of kDevices.
RunDevice device_named(std::string_view name);

// Opens `device`. auto takes a GPU if one can be used, else the CPU; it logs the reason if there is a GPU on this
// machine, or in any case with `says_why`. cuda throws ConfigError with the reason if no GPU can be used. Rank
// `local_rank` of its host gets the GPU with that index, or the first one if that cannot be used (a launcher may make
// only one GPU visible to each rank). Also sets the number of compute threads (0: the cores that this process may use).
std::unique_ptr<Ops> open_device(RunDevice device, int threads, int local_rank = 0, bool says_why = false);

// Returns this process's CPU backend, which predictions of runs on CPUs ask for their scratch memory. That of other
// instruction sets may differ.
const Ops& cpu_backend();

}  // namespace fp
