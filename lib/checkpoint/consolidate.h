// Rewrites a checkpoint as one with a single rank file, in which every tensor is contiguous.
#pragma once

#include <filesystem>

#include "checkpoint/checkpoint.h"

namespace fp {

// Copies `from` to `to`, a few MiB at a time, and verifies every tensor of the copy against the manifest's fingerprints
// before the copy gets its name. `created_by`: program and version. Throws ConfigError when `to` exists, and DataError
// when the copy fails, which leaves nothing behind.
void consolidate(const Checkpoint& from, const std::filesystem::path& to, const std::string& created_by);

}  // namespace fp
