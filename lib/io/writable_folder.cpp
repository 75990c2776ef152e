#include "io/writable_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "io/filesystem.h"

namespace fp {
namespace {

// Returns 0 if `path` is a writable folder, ENOENT if it does not exist or is inaccessible, else the errno.
int writable(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOTDIR || errno == EACCES) return ENOENT;  // caused by a parent folder
    const int error = errno;
    return error == ENOENT && ::lstat(path.c_str(), &info) == 0 ? EEXIST : error;  // a dangling symbolic link
  }
  if (!S_ISDIR(info.st_mode)) return ENOTDIR;
  return ::faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

// Errors that only another path in the configuration resolves.
bool is_bad_path(int error) { return error == ENOTDIR || error == EEXIST || error == ENAMETOOLONG || error == ELOOP; }

// Errors of the disk or its permissions; the configuration may be right.
bool is_refused_by_disk(int error) { return error == EACCES || error == EPERM || error == EROFS; }

}  // namespace

void require_folder_possible(const std::filesystem::path& path, const std::string& what) {
  std::filesystem::path at = std::filesystem::absolute(path).lexically_normal();
  const std::filesystem::path wanted = at;
  int error = writable(at);
  while (error == ENOENT && at.has_relative_path()) error = writable(at = at.parent_path());
  if (!is_bad_path(error) && !is_refused_by_disk(error)) return;
  const std::string text = fmt::format("{}: cannot {} {}: {}{}", path.string(), at == wanted ? "use" : "create", what,
                                       at == wanted ? "" : at.string() + ": ", std::generic_category().message(error));
  if (is_bad_path(error)) throw ConfigError(text);
  throw DataError(text);
}

void require_writable_folder(const std::filesystem::path& path, const std::string& what) {
  if (writable(path) == ENOENT)
    throw ConfigError(
        fmt::format("{}: cannot use {}: {}", path.string(), what, std::generic_category().message(ENOENT)));
  require_folder_possible(path, what);
}

void require_output_file(const std::filesystem::path& path, const std::string& option) {
  if (path.empty()) return;
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw ConfigError(fmt::format("{} {}: is not a regular file; legal: the name of a new file, or of one to replace",
                                  option, path.string()));
  require_writable_folder(path.has_parent_path() ? path.parent_path() : std::filesystem::path("."),
                          fmt::format("the folder of {} {}", option, path.string()));
}

void output_file(const std::filesystem::path& path, const std::string& option, std::string_view content) {
  require_output_file(path, option);
  std::error_code error;
  const bool link = std::filesystem::is_symlink(std::filesystem::symlink_status(path, error));
  const std::filesystem::path target = link ? std::filesystem::canonical(path, error) : path;
  write_file_atomically(error ? path : target, content);
}

}  // namespace fp
