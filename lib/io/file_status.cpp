#include "io/file_status.h"

#include <cerrno>

#include "io/retry.h"

namespace fp {
namespace {

using StatCall = int (*)(const char*, struct stat*);

std::optional<struct stat> status_by(StatCall call, const std::filesystem::path& path) {
  return with_retries([&]() -> std::optional<struct stat> {
    struct stat info {};
    if (call(path.c_str(), &info) == 0) return info;
    const int error = errno;
    try {
      fail_reading("", path, error);
    } catch (const AccessError&) {
      throw;
    } catch (const DataError&) {
      if (error == ENOENT || error == ENOTDIR) return std::nullopt;
      throw;
    }
  });
}

}  // namespace

std::optional<struct stat> stat_path(const std::filesystem::path& path) { return status_by(::stat, path); }

std::optional<struct stat> lstat_path(const std::filesystem::path& path) { return status_by(::lstat, path); }

}  // namespace fp
