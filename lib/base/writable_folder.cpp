#include "base/writable_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"

namespace fp {
namespace {

// 0, ENOENT where nothing is there or can be seen, or why nothing can be put into what is.
int writable(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOTDIR || errno == EACCES) return ENOENT;  // a folder above is the reason
    const int error = errno;
    return error == ENOENT && ::lstat(path.c_str(), &info) == 0 ? EEXIST : error;  // a link to nowhere is in the way
  }
  if (!S_ISDIR(info.st_mode)) return ENOTDIR;
  return ::faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

// Only another path in the configuration helps.
bool is_bad_path(int error) { return error == ENOTDIR || error == EEXIST || error == ENAMETOOLONG || error == ELOOP; }

// The same configuration is right as soon as the disk, or the rights to it, are.
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

}  // namespace fp
