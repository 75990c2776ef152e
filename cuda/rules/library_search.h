// Where the CUDA libraries are looked for when they are first needed. fptrain is one binary for machines with and
// without them, so none is linked.
//
// Order: what the loader finds by name (LD_LIBRARY_PATH, ld.so.cache), beside the executable and in ../lib (a bundle),
// the folders of NVIDIA's Python wheels in an active environment or that of the python3 in PATH, the CUDA toolkit.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fp::cuda {

struct SearchPlaces {
  std::filesystem::path executable;                 // its folder
  std::vector<std::filesystem::path> environments;  // Python or conda prefixes
  std::vector<std::filesystem::path> toolkits;      // CUDA installations
};

// Of this process: /proc/self/exe, VIRTUAL_ENV, CONDA_PREFIX, PATH, CUDA_HOME, CUDA_PATH, /usr/local/cuda.
SearchPlaces search_places();

// What to pass to dlopen, in order: `soname` itself, then existing files of that name.
std::vector<std::string> library_candidates(const std::string& soname, const SearchPlaces& places);

// The line for people when none could be loaded: `why` is the loader's last word.
std::string library_missing(const std::string& soname, const std::string& wheel, const std::string& why);

}  // namespace fp::cuda
