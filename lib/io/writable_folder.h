// Checks whether a folder can be created or written to, before there is anything to write; and writes files that a
// command line names.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace fp {

// Checks that a folder can be created at `path`, or that the existing one can be written to; creates nothing. Throws
// ConfigError naming the obstacle if `path` is a mistake (it leads through a file or a dangling symbolic link, or is
// too long), and DataError if the disk refuses (no permission, mounted read-only), as a later attempt may succeed.
// `what` names the folder in messages: "the run directory". Failures that only an attempt shows (a full disk) are not
// detected.
void require_folder_possible(const std::filesystem::path& path, const std::string& what);

// As above for a folder that must exist; throws ConfigError if it does not.
void require_writable_folder(const std::filesystem::path& path, const std::string& what);

// Checks, before long work, that output_file() can write to the file that an option names. Throws ConfigError for what
// exists and is not a regular file, such as a device, which a file would replace, and as require_writable_folder() for
// the folder. An empty path is none.
void require_output_file(const std::filesystem::path& path, const std::string& option);
// Writes such a file, or replaces it: whole or not at all. A symbolic link stays, and what it leads to is replaced.
void output_file(const std::filesystem::path& path, const std::string& option, std::string_view content);

}  // namespace fp
