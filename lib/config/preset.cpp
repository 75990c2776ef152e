#include "config/preset.h"

#include <cstdlib>
#include <set>

#include "base/error.h"

namespace fp {

namespace fs = std::filesystem;

std::vector<fs::path> config_folders() {
  std::vector<fs::path> folders;
  std::error_code ignored;
  const auto add = [&](const fs::path& folder) {
    if (fs::is_directory(folder / "models", ignored)) folders.push_back(folder);
  };
  if (const char* folder = std::getenv("FPTRAIN_CONFIGS"); folder != nullptr && *folder != '\0') add(folder);
  const fs::path executable = fs::read_symlink("/proc/self/exe", ignored);
  if (!executable.empty()) {
    add(executable.parent_path().parent_path() / "share/fptrain/configs");
    for (fs::path p = executable.parent_path(); p != p.root_path(); p = p.parent_path()) add(p / "configs");
  }
  add(FP_SOURCE_CONFIGS);
  return folders;
}

namespace {

// Returns the sorted names of the YAML files in `kind`/ of config_folders().
std::vector<std::string> names_in(const char* kind) {
  std::set<std::string> names;
  for (const fs::path& folder : config_folders()) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder / kind, ignored))
      if (entry.path().extension() == ".yaml") names.insert(entry.path().stem().string());
  }
  return {names.begin(), names.end()};
}

// Throws ConfigError if access to a path is denied, so that an unreadable file is not reported as missing.
void require_visible(const fs::path& path) {
  std::error_code error;
  static_cast<void>(fs::exists(path, error));
  if (error && error != std::errc::filename_too_long)
    throw ConfigError(fmt::format("{}: {}", path.string(), error.message()));
}

// Finds a file by its path, or by its name in `kind`/ of config_folders().
fs::path find_file(const char* kind, std::string_view name, const fs::path& base) {
  if (name.empty()) return {};
  std::error_code ignored;
  std::vector<fs::path> places = {base / name, fs::path(name)};
  if (name.find('/') == std::string_view::npos)
    for (const fs::path& folder : config_folders()) places.push_back(folder / kind / (std::string(name) + ".yaml"));
  for (const fs::path& path : places)
    if (fs::is_regular_file(path, ignored)) return path;
  for (const fs::path& path : {base / name, fs::path(name)}) require_visible(path);
  return {};
}

}  // namespace

std::vector<std::string> preset_names() { return names_in("models"); }
std::vector<std::string> cluster_names() { return names_in("clusters"); }
std::vector<std::string> mapping_names() { return names_in("mappings"); }

fs::path model_description_at(const fs::path& path) {
  std::error_code ignored;
  if (path.extension() == ".safetensors") {
    const fs::path beside = path.parent_path() / "config.json";
    return fs::is_regular_file(beside, ignored) ? beside : fs::path();
  }
  require_visible(path / "config.yaml");
  for (const char* name : {"config.yaml", "config.json"})
    if (fs::is_regular_file(path / name, ignored)) return path / name;
  fs::path newest;  // in a checkpoints folder; names sort by step, as steps have leading zeros
  for (const auto& entry : fs::directory_iterator(path, ignored))
    if (entry.path().filename().string().starts_with("step-") && entry.path() > newest) newest = entry.path();
  return !newest.empty() && fs::is_regular_file(newest / "config.yaml", ignored) ? newest / "config.yaml" : fs::path();
}

fs::path find_cluster(std::string_view cluster, const fs::path& base) { return find_file("clusters", cluster, base); }
fs::path find_mapping(std::string_view mapping, const fs::path& base) { return find_file("mappings", mapping, base); }

fs::path find_preset(std::string_view preset, const fs::path& base) {
  std::error_code ignored;
  const bool is_name = preset.find('/') == std::string_view::npos && !preset.ends_with(".yaml");
  if (is_name)
    for (const fs::path& folder : config_folders()) {
      const fs::path path = folder / "models" / (std::string(preset) + ".yaml");
      if (fs::is_regular_file(path, ignored)) return path;
    }
  for (const fs::path& path : {base / preset, fs::path(preset)}) {
    if (!is_name && fs::is_regular_file(path, ignored)) return path;
    if (fs::is_directory(path, ignored)) return model_description_at(path);
  }
  if (!is_name)
    for (const fs::path& path : {base / preset, fs::path(preset)}) require_visible(path);
  return {};
}

}  // namespace fp
