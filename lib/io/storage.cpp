#include "io/storage.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/progress.h"
#include "io/filesystem.h"
#include "io/new_file.h"
#include "io/retry.h"

namespace fp::storage {
namespace {

Hook& hook() {
  static Hook h;
  return h;
}

[[noreturn]] void fail(std::string_view what, const std::filesystem::path& path, int error) {
  throw DataError(fmt::format("{}: cannot {}: {}", path.string(), what, std::strerror(error)), exit_code_of(error));
}

std::filesystem::path parent_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// A file open for writing. Errors of close(2) are not reported: sync() reports lost writes.
class Output {
 public:
  explicit Output(const std::filesystem::path& path) : path_(path) {
    announce(Step::create_file, path);
    file_ = fp::create_file(path);
  }

  void write(std::string_view content) {
    announce(Step::write, path_);
    while (!content.empty()) {
      const ssize_t n = ::write(file_.get(), content.data(), content.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("write", path_, errno);
      content.remove_prefix(static_cast<size_t>(n));
    }
  }
  void sync() { storage::sync(file_.get(), path_); }

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

}  // namespace

void set_hook(Hook h) { hook() = std::move(h); }

void announce(Step step, const std::filesystem::path& path) {
  if (hook()) hook()(step, path);
}

void make_folder(const std::filesystem::path& path) {
  announce(Step::make_folder, path);
  if (::mkdir(path.c_str(), 0777) != 0) fail("create the folder", path, errno);
}

void make_folders(const std::filesystem::path& path) {
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored)) return;
  if (path.has_parent_path() && path.parent_path() != path) make_folders(path.parent_path());
  announce(Step::make_folder, path);
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) fail("create the folder", path, errno);
  sync(parent_of(path));
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  Output file(path);
  file.write(content);
  file.sync();
}

void copy_file(int from, const std::filesystem::path& name, const std::filesystem::path& to) {
  constexpr size_t kPiece = size_t{8} << 20;
  Output file(to);
  std::vector<char> piece(kPiece);
  for (off_t at = 0;;) {
    const ssize_t n = ::pread(from, piece.data(), piece.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read", name, errno);
    if (n == 0) break;
    file.write({piece.data(), static_cast<size_t>(n)});
    at += n;
    progress();
  }
  file.sync();
}

void remove_file(const std::filesystem::path& path) {
  announce(Step::remove, path);
  if (::unlink(path.c_str()) != 0) fail("remove", path, errno);
}

void sync(const std::filesystem::path& path) {
  announce(Step::sync, path);
  fsync_path(path);
}

void sync(int fd, const std::filesystem::path& path) {
  announce(Step::sync, path);
  if (::fsync(fd) != 0) fail("fsync", path, errno);
}

void rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  announce(Step::rename, from);
  if (!rename_path(from, to)) fail(fmt::format("rename to {}", to.string()), from, errno);
  sync(parent_of(to));
}

void remove_folder(const std::filesystem::path& path) {
  for (const std::filesystem::path& file : entries_of(path)) remove_file(file);
  announce(Step::remove, path);
  if (::rmdir(path.c_str()) != 0) fail("remove the folder", path, errno);
}

bool is_folder(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::symlink_status(path, error).type() == std::filesystem::file_type::directory;
}

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  return with_retries([&] {
    std::vector<std::filesystem::path> entries;
    std::error_code error;
    for (auto it = std::filesystem::directory_iterator(folder, error); !error && it != std::filesystem::end(it);
         it.increment(error))
      entries.push_back(it->path());
    if (error && (error != std::errc::no_such_file_or_directory || path_exists(folder)))
      fail_reading("list", folder, error.value());
    std::sort(entries.begin(), entries.end());
    return entries;
  });
}

}  // namespace fp::storage
