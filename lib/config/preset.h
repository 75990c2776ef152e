// Model presets: run specs with only a model section, in configs/models/, and folders that hold a model.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fp {

// Folders that may hold models/<preset>.yaml, in the order they are searched: $FPTRAIN_CONFIGS; share/fptrain/configs
// of an installed executable; configs/ in a folder above the executable; configs/ of the source tree it was built from.
std::vector<std::filesystem::path> config_folders();

// Names of all presets found, sorted.
std::vector<std::string> preset_names();

// The file of `preset`: a name of preset_names(), the path of a .yaml file or a folder (its model_description_at);
// paths are relative to `base`, then to the working directory. Empty path if there is none. ConfigError, as from all
// below, where a folder may not be searched.
std::filesystem::path find_preset(std::string_view preset, const std::filesystem::path& base);

// The file of `cluster`: a name in clusters/ of config_folders(), or a path as find_preset() takes it. Empty path if
// there is none.
std::filesystem::path find_cluster(std::string_view cluster, const std::filesystem::path& base);

// The same of import mappings (config/mapping.h): the names, sorted, and the file of one, a name or a path.
std::vector<std::string> mapping_names();
std::filesystem::path find_mapping(std::string_view mapping, const std::filesystem::path& base);

// What describes the model at a path: config.yaml of a checkpoint, checkpoints folder (its newest) or run directory,
// config.json of a Hugging Face folder or beside a .safetensors file. Empty path if there is neither.
std::filesystem::path model_description_at(const std::filesystem::path& path);

}  // namespace fp
