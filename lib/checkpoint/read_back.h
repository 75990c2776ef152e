// What a save has written, read again and compared with what was in memory, before anybody relies on it.
//
// The file is read once, for its hash and the fingerprints of its tensors alike. What the kernel still holds of it
// comes from memory: this finds bits that changed on the way there, files that others altered, and places that were
// written twice, but not a disk that will return something else later.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/rank_file.h"

namespace fp {

// Size and hash of a rank file as it lies there. DataError naming the tensors whose fingerprints are not those of the
// parts, which were taken from memory.
CheckpointFile read_back(const std::filesystem::path&, const ParamTable&, const std::vector<WrittenPart>&);

// Size and hash of a file that holds `text`. DataError when it reads otherwise.
CheckpointFile read_back(const std::filesystem::path&, const std::string& text);

// DataError when the file reads otherwise than that which had this size and hash: that of a copy of it.
void require_same(const std::filesystem::path&, const CheckpointFile&);

}  // namespace fp
