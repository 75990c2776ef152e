// A checkpoint whose tensors lie in one file, each in one piece, made of any other.
#pragma once

#include <filesystem>

#include "checkpoint/checkpoint.h"

namespace fp {

// Copies a few MiB at a time, compares every tensor of the copy with the manifest's fingerprints, and only then gives
// it the name `to`. `created_by`: program and version. ConfigError when `to` exists; DataError leaves nothing behind.
void consolidate(const Checkpoint&, const std::filesystem::path& to, const std::string& created_by);

}  // namespace fp
