// Finds configuration files: model presets (run specs with only a model section, in configs/models/), folders that hold
// a model, cluster descriptions and mapping files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fp {

// Returns the folders that have a models/ folder, in the order they are searched: $FPTRAIN_CONFIGS;
// share/fptrain/configs of an installed executable; configs/ in a folder above the executable; configs/ of the source
// tree it was built from.
std::vector<std::filesystem::path> config_folders();

// Returns the names of all presets found, sorted.
std::vector<std::string> preset_names();

// Returns the file of `preset`: a name of preset_names(), the path of a .yaml file, or a folder (its
// model_description_at). Paths are relative to `base`, then to the working directory. Returns an empty path if it does
// not exist. Throws ConfigError, as do all functions below, if a folder may not be searched.
std::filesystem::path find_preset(std::string_view preset, const std::filesystem::path& base);

// As preset_names() and find_preset(), for cluster descriptions (config/cluster/cluster.h) in clusters/ of
// config_folders().
std::vector<std::string> cluster_names();
std::filesystem::path find_cluster(std::string_view cluster, const std::filesystem::path& base);

// As preset_names() and find_cluster(), for mapping files (config/mapping/mapping.h) in mappings/ of config_folders().
std::vector<std::string> mapping_names();
std::filesystem::path find_mapping(std::string_view mapping, const std::filesystem::path& base);

// Returns the file that describes the model at a path: config.yaml of a checkpoint, of a checkpoints folder (its
// newest) or of a run directory; config.json of a Hugging Face folder or beside a .safetensors file. Returns an empty
// path if neither exists.
std::filesystem::path model_description_at(const std::filesystem::path& path);

}  // namespace fp
