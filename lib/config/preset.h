// Model presets: run specs with only a model section, in configs/models/.
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

// The file of `preset`: a path if it has a '/' or ends in .yaml (relative to `base`, then to the working directory),
// else a name. Empty path if there is none.
std::filesystem::path find_preset(std::string_view preset, const std::filesystem::path& base);

}  // namespace fp
