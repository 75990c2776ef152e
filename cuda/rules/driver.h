// Whether this machine's driver and GPU can run this binary, from what they answer, and the words for when not.
#pragma once

#include <string>
#include <string_view>

namespace fp::cuda {

// What a machine says of itself. Versions are CUDA's: 1000 * major + 10 * minor.
struct DriverAnswer {
  int driver_version = 0;     // newest CUDA the driver supports; 0: no driver
  int runtime_version = 0;    // CUDA this binary was built with
  std::string kernel_module;  // version of the driver itself, such as 580.65.06; empty: not known
  std::string error;          // of asking for the devices; empty: none
  int devices = 0;            // visible to this process
  // Of the device asked for:
  std::string name;
  int compute_major = 0, compute_minor = 0;
};

// One line for people, empty when device `index` can be used. `archs`: what kernels were compiled for.
std::string unavailable_reason(const DriverAnswer&, int index, std::string_view archs);

// Whether code compiled for `archs` (as CMAKE_CUDA_ARCHITECTURES names them: "80,90a,100f,90-real,90-virtual") runs
// on a GPU of this compute capability. Machine code runs on its major version from its minor version on, PTX (no
// suffix, or -virtual) on every later GPU too, `a` on that GPU alone, `f` on its major version.
bool built_for(std::string_view archs, int major, int minor);

// The version in the first line of /proc/driver/nvidia/version; empty when there is none.
std::string module_version(const std::string& line);

}  // namespace fp::cuda
