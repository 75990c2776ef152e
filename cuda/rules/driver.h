// Decides from the answers of the driver whether this machine's driver and GPU can run this binary, and words the
// message when they cannot.
#pragma once

#include <string>
#include <string_view>

namespace fp::cuda {

// Answers of the driver and runtime of a machine. Versions are CUDA's: 1000 * major + 10 * minor.
struct DriverAnswer {
  int driver_version = 0;     // newest CUDA the driver supports; 0: no driver
  int runtime_version = 0;    // CUDA this binary was built with
  std::string kernel_module;  // version of the driver itself, such as 580.65.06; empty: not known
  std::string error;          // error of the query for devices; empty: none
  int devices = 0;            // number visible to this process
  // The device in question:
  std::string name;
  int compute_major = 0, compute_minor = 0;
};

// Returns one line on why device `index` cannot be used; empty when it can. `archs`: the architectures that kernels
// were compiled for.
std::string unavailable_reason(const DriverAnswer&, int index, std::string_view archs);

// Returns whether code compiled for `archs` (as CMAKE_CUDA_ARCHITECTURES names them: "80,90a,100f,90-real,90-virtual")
// runs on a GPU of this compute capability. Machine code runs on GPUs of the same major version and the same or a later
// minor version, PTX (no suffix, or -virtual) on every later GPU too, `a` on that GPU only, `f` on its major version.
bool built_for(std::string_view archs, int major, int minor);

// Returns the version in `line`, the first line of /proc/driver/nvidia/version; empty when there is none.
std::string module_version(const std::string& line);

}  // namespace fp::cuda
