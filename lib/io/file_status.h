// Status of files, by calls that are retried while the file system fails transiently (io/retry.h).
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <optional>

namespace fp {

// Return what stat(2) and lstat(2), which does not follow a symbolic link, say of a path; nullopt when it does not
// exist. Failures are thrown as by fail_reading().
std::optional<struct stat> stat_path(const std::filesystem::path& path);
std::optional<struct stat> lstat_path(const std::filesystem::path& path);

}  // namespace fp
