#include "checkpoint/plain_file.h"

#include <vector>

#include "base/progress.h"
#include "io/file_status.h"
#include "io/filesystem.h"
#include "io/readable_file.h"

namespace fp {

bool is_entry(const std::filesystem::path& path) { return lstat_path(path).has_value(); }

std::optional<uint64_t> size_of_plain_file(const std::filesystem::path& path) {
  const std::optional<struct stat> info = lstat_path(path);
  if (!info) return std::nullopt;
  if (S_ISLNK(info->st_mode))
    throw DataError(fmt::format("{}: is a symbolic link, which is not followed here; put the file itself in its place",
                                path.string()));
  if (!S_ISREG(info->st_mode)) throw DataError(fmt::format("{}: is not a regular file", path.string()));
  return static_cast<uint64_t>(info->st_size);
}

std::string read_plain_file(const std::filesystem::path& path, uint64_t most) {
  const uint64_t bytes = size_of_plain_file(path).value_or(0);
  if (bytes > most) throw DataError(fmt::format("{}: has {} bytes; legal: at most {}", path.string(), bytes, most));
  const ReadableFile file(path, Symlinks::refuse);
  std::string content(static_cast<size_t>(bytes), '\0');
  content.resize(file.read(0, std::as_writable_bytes(std::span(content))));
  return content;
}

std::string hash_plain_file(const std::filesystem::path& path) {
  const ReadableFile file(path, Symlinks::refuse);
  ContentHash hash;
  std::vector<std::byte> piece(size_t{1} << 18);  // stays in a core's cache
  uint64_t at = 0;
  for (size_t n; (n = file.read(at, piece)) > 0; at += n) {
    hash.add(piece.data(), n);
    progress();
  }
  return hash.digits();
}

}  // namespace fp
