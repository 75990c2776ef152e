// Search paths of the CUDA libraries, which are loaded when they are first needed. fptrain is one binary for machines
// with and without them, so none is linked.
//
// Search order: what the loader finds by name (LD_LIBRARY_PATH, ld.so.cache); beside the executable and in ../lib (a
// bundle); the folders of NVIDIA's Python wheels in an active environment or in that of the python3 in PATH; the CUDA
// toolkit.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fp::cuda {

struct SearchPlaces {
  std::filesystem::path executable;                 // folder of the executable
  std::vector<std::filesystem::path> environments;  // Python or conda prefixes
  std::vector<std::filesystem::path> toolkits;      // CUDA installations
};

// Returns the search places of this process, from /proc/self/exe, VIRTUAL_ENV, CONDA_PREFIX, PATH, CUDA_HOME, CUDA_PATH
// and /usr/local/cuda.
SearchPlaces search_places();

// Returns the arguments to try with dlopen, in order: `soname` itself, then existing files of that name.
std::vector<std::string> library_candidates(const std::string& soname, const SearchPlaces& places);

// Returns the one-line message when none could be loaded. `why` is the loader's last error.
std::string library_missing(const std::string& soname, const std::string& wheel, const std::string& why);

}  // namespace fp::cuda
