// Whether a folder can be made, or filled, before there is something to put into it.
#pragma once

#include <filesystem>
#include <string>

namespace fp {

// Makes nothing. Names what is in the way where no folder can be made at `path`, or nothing be put into the one that is
// there: ConfigError where `path` is a mistake (it leads through another file or a link to nowhere, or is too long),
// DataError where the disk refuses (no permission, mounted for reading only), as a later attempt may do better. `what`:
// "the run directory". What only trying shows (a full disk) is left to who makes it.
void require_folder_possible(const std::filesystem::path& path, const std::string& what);

// The same of a folder that has to be there; ConfigError where it is not.
void require_writable_folder(const std::filesystem::path& path, const std::string& what);

}  // namespace fp
