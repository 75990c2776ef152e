// Creates and appends to files in folders where other users may write too, without ever writing to something they
// planted there.
#pragma once

#include <filesystem>

#include "base/file_descriptor.h"

namespace fp {

// Returns a name for a temporary file beside its final path: "NAME.tmp.<32 random hex digits>". Process ids would not
// do: others can predict them, and two nodes or containers may have the same ones.
std::filesystem::path temporary_beside(const std::filesystem::path& path);

// Creates a file and opens it for writing. Throws DataError on failure, also if anything of that name exists already,
// such as a dangling symbolic link.
FileDescriptor create_file(const std::filesystem::path& path);

// Opens a file for appending; creates it if it does not exist. Throws DataError on failure, or if the path is a
// symbolic link or anything but a regular file.
FileDescriptor open_to_append(const std::filesystem::path& path);

}  // namespace fp
