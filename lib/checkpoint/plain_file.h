// Reads the files of a checkpoint, which must be regular files in its folder. Symbolic links are not followed: in a
// checkpoint from somebody who is not trusted, one could lead to any file of the user who opens it. The folder itself
// may be a link.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace fp {

// Each function but is_entry throws DataError naming the path when it is a symbolic link or not a regular file. Errors
// that may be temporary are retried (io/retry.h) and then thrown as InfrastructureError.

// Returns whether `path` exists, as a file, link or anything else.
bool is_entry(const std::filesystem::path& path);
// Returns the size in bytes; nullopt when `path` does not exist.
std::optional<uint64_t> size_of_plain_file(const std::filesystem::path& path);
// Returns the whole content. Throws DataError when the file has more than `most` bytes.
std::string read_plain_file(const std::filesystem::path& path, uint64_t most);
// Same as hash_file().
std::string hash_plain_file(const std::filesystem::path& path);

}  // namespace fp
