#include "io/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/error.h"
#include "base/random_digits.h"
#include "io/filesystem.h"

namespace fp {

std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  std::filesystem::path temporary = path;
  return temporary += ".tmp." + random_digits();
}

FileDescriptor create_file(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file.is_open()) fail_file(path, "create", errno);
  return file;
}

FileDescriptor open_to_append(const std::filesystem::path& path) {
  // Without O_NONBLOCK a planted pipe would keep the caller waiting for a reader.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  FileDescriptor file(::open(path.c_str(), kFlags, 0666));
  const int error = errno;
  if (!file.is_open() && error == ELOOP)
    throw DataError(
        fmt::format("{}: is a symbolic link, and nothing is written through one; remove it", path.string()));
  struct stat info {};
  if (!file.is_open() && error != ENXIO) fail_file(path, "open for writing", error);
  if (!file.is_open() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode))
    throw DataError(fmt::format("{}: is not a regular file; remove it", path.string()));
  return file;
}

}  // namespace fp
