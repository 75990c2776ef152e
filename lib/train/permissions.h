// File modes of everything that a run writes (`run.permissions`).
#pragma once

#include <filesystem>
#include <string>

#include "config/run_spec.h"

namespace fp {

// Returns the umask of a spec's run.permissions as a batch script sets it: "0077", "0027", or empty where the process
// keeps its own.
std::string umask_text(const RunSpec&);

// Sets the umask so that all files and folders which this process and its children create from now on have the modes of
// run.permissions. Call it on every rank before writing anything of the run.
void apply_permissions(const RunSpec&);

// Creates the run directory, or a folder below it, and gives it the mode of run.permissions, also when it exists.
// Missing parent folders are created with the process's original umask. Throws ConfigError when the folder belongs to
// another user and is open to more people than run.permissions allows, and DataError when it cannot be created.
void make_run_folder(const RunSpec&, const std::filesystem::path& folder);

// For writing into a run directory without its spec: restricts the umask so that new files are never open to more
// people than that folder.
void write_as_private_as(const std::filesystem::path& folder);

}  // namespace fp
