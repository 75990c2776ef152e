// Reads back what a save has written and compares it with what was in memory, before anything relies on it.
//
// The file is read once, for both its hash and the fingerprints of its tensors. Pages that the kernel still caches are
// not read from the disk: this finds bits that changed while writing, files that other processes altered, and offsets
// that were written twice, but not a disk that returns something else later.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/rank_file.h"
#include "io/readable_file.h"

namespace fp {

// Returns the name, size and hash of a rank file as read. Throws DataError naming the tensors whose fingerprints differ
// from those of the parts, which were computed from memory.
CheckpointFile read_back(const ReadableFile&, const ParamTable&, const std::vector<WrittenPart>&);

// Returns the name, size and hash of a file that must hold `text`. Throws DataError when it holds anything else.
CheckpointFile read_back(const std::filesystem::path&, const std::string& text);

// Throws DataError when the file's hash differs from that of the given one, of which it should be a copy.
void require_same(const std::filesystem::path&, const CheckpointFile&);

}  // namespace fp
