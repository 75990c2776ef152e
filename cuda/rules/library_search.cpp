#include "cuda/rules/library_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace fp::cuda {
namespace {

namespace fs = std::filesystem;

void add_variable(std::vector<fs::path>& to, const char* variable) {
  const char* value = std::getenv(variable);
  if (value != nullptr && *value != '\0') to.emplace_back(value);
}

// Adds the prefix of the python3 in PATH: its environment need not be active in any other way.
void add_python(std::vector<fs::path>& to) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  std::error_code failed;
  for (std::string folder; std::getline(folders, folder, ':');)
    if (!folder.empty() && fs::exists(fs::path(folder) / "python3", failed))
      return to.push_back(fs::path(folder).parent_path());
}

// Returns the sub-folders of `parent` whose names start with `prefix`, sorted by name.
std::vector<fs::path> folders(const fs::path& parent, const std::string& prefix) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (fs::directory_iterator i(parent, failed), end; !failed && i != end; i.increment(failed))
    if (i->path().filename().string().rfind(prefix, 0) == 0) found.push_back(i->path());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

SearchPlaces search_places() {
  SearchPlaces places;
  std::error_code failed;
  places.executable = fs::read_symlink("/proc/self/exe", failed).parent_path();
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) add_variable(places.environments, variable);
  add_python(places.environments);
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) add_variable(places.toolkits, variable);
  places.toolkits.emplace_back("/usr/local/cuda");
  return places;
}

std::vector<std::string> library_candidates(const std::string& soname, const SearchPlaces& places) {
  std::vector<fs::path> in;
  if (!places.executable.empty()) {
    in.push_back(places.executable);
    in.push_back(places.executable.parent_path() / "lib");
  }
  for (const fs::path& environment : places.environments)
    for (const fs::path& python : folders(environment / "lib", "python3"))
      for (const fs::path& wheel : folders(python / "site-packages" / "nvidia", "")) in.push_back(wheel / "lib");
  for (const fs::path& toolkit : places.toolkits) in.push_back(toolkit / "lib64");

  std::vector<std::string> candidates{soname};
  for (const fs::path& folder : in) {
    const fs::path file = folder / soname;
    std::error_code failed;
    if (fs::exists(file, failed)) candidates.push_back(file.string());
  }
  return candidates;
}

std::string library_missing(const std::string& soname, const std::string& wheel, const std::string& why) {
  return fmt::format(
      "{} could not be loaded ({}); load it with your cluster's modules (module load cuda/13), or with `pip install "
      "{}` "
      "in a Python environment that is active, or name its folder in LD_LIBRARY_PATH",
      soname, why, wheel);
}

}  // namespace fp::cuda
