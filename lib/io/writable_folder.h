// Checks whether a folder can be created or written to, before there is anything to write.
#pragma once

#include <filesystem>
#include <string>

namespace fp {

// Checks that a folder can be created at `path`, or that the existing one can be written to; creates nothing. Throws
// ConfigError naming the obstacle if `path` is a mistake (it leads through a file or a dangling symbolic link, or is
// too long), and DataError if the disk refuses (no permission, mounted read-only), as a later attempt may succeed.
// `what` names the folder in messages: "the run directory". Failures that only an attempt shows (a full disk) are not
// detected.
void require_folder_possible(const std::filesystem::path& path, const std::string& what);

// As above for a folder that must exist; throws ConfigError if it does not.
void require_writable_folder(const std::filesystem::path& path, const std::string& what);

}  // namespace fp
