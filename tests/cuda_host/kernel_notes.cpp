// At the end of a test program, writes the list of kernels that it launched, for the test that finds those never run.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cuda_host/execution.h"

namespace {

struct Notes {
  Notes() {  // both lists are made before this, so they go after this
    fp::cuda::host::launched_kernels();
    fp::cuda::host::registered_kernels();
  }
  ~Notes() {
    const char* folder = std::getenv("FP_KERNEL_NOTES");
    if (folder == nullptr) return;
    std::filesystem::create_directories(folder);
    std::ofstream launched(std::filesystem::path(folder) / fmt::format("{}.launched", getpid()));
    for (const std::string& name : fp::cuda::host::launched_kernels()) launched << name << '\n';
    std::ofstream known(std::filesystem::path(folder) / fmt::format("{}.known", getpid()));
    for (const std::string& name : fp::cuda::host::registered_kernels()) known << name << '\n';
  }
} notes;

}  // namespace
