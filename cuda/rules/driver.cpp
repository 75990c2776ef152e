#include "cuda/rules/driver.h"

#include <fmt/format.h>

#include <cctype>
#include <sstream>
#include <vector>

namespace fp::cuda {
namespace {

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

bool one_runs_on(std::string_view arch, int major, int minor) {
  int number = 0;
  size_t i = 0;
  for (; i < arch.size() && std::isdigit(static_cast<unsigned char>(arch[i])); ++i)
    number = number * 10 + arch[i] - '0';
  if (i == 0) return false;
  const char variant = i < arch.size() ? arch[i] : '-';
  const bool same_major = number / 10 == major && number % 10 <= minor;
  if (variant == 'a') return number == major * 10 + minor;
  if (variant == 'f' || arch.substr(i) == "-real") return same_major;
  return number <= major * 10 + minor;
}

}  // namespace

bool built_for(std::string_view archs, int major, int minor) {
  std::istringstream list{std::string(archs)};
  for (std::string item; std::getline(list, item, ',');)
    if (one_runs_on(item, major, minor)) return true;
  return false;
}

std::string module_version(const std::string& line) {
  std::istringstream words(line);
  for (std::string word; words >> word;)
    if (std::isdigit(static_cast<unsigned char>(word[0])) && word.find('.') != std::string::npos) return word;
  return "";
}

std::string unavailable_reason(const DriverAnswer& a, int index, std::string_view archs) {
  if (a.driver_version == 0)
    return a.kernel_module.empty()
               ? "no NVIDIA driver: libcuda.so.1 was not found and no kernel module is loaded"
               : fmt::format(
                     "the NVIDIA driver {} is loaded, but its libcuda.so.1 was not found or cannot be used "
                     "(in a container: start it with the GPU's libraries, such as --gpus all or --nv)",
                     a.kernel_module);
  // Any driver of the same major CUDA version runs it.
  if (a.driver_version / 1000 < a.runtime_version / 1000)
    return fmt::format("the NVIDIA driver{}{} supports CUDA up to {}, this binary is built with CUDA {}: update it",
                       a.kernel_module.empty() ? "" : " ", a.kernel_module, version_text(a.driver_version),
                       version_text(a.runtime_version));
  if (!a.error.empty()) return fmt::format("the NVIDIA driver reports {}", a.error);
  if (a.devices == 0) return "no GPU is visible to this process (see CUDA_VISIBLE_DEVICES, and Slurm's --gpus)";
  if (index >= a.devices)
    return fmt::format("GPU {} was requested, but this process sees {} (see CUDA_VISIBLE_DEVICES, and Slurm's --gpus)",
                       index, a.devices);
  if (!built_for(archs, a.compute_major, a.compute_minor))
    return fmt::format("GPU {} ({}) has compute capability {}.{}, this binary is built for {} (FPTRAIN_CUDA_ARCHS)",
                       index, a.name, a.compute_major, a.compute_minor, archs);
  return "";
}

}  // namespace fp::cuda
