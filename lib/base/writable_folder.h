// Whether a folder can be made, or filled, before there is something to put into it.
#pragma once

#include <filesystem>
#include <string>

namespace fp {

// Makes nothing. ConfigError naming what is in the way where no folder can be made at `path`, or nothing be put into
// the one that is there: another file, no permission, a disk for reading only. `what`: "the run directory". What only
// trying shows (a full disk) is left to who makes it.
void require_folder_possible(const std::filesystem::path& path, const std::string& what);

// The same of a folder that has to be there.
void require_writable_folder(const std::filesystem::path& path, const std::string& what);

}  // namespace fp
