#include "checkpoint/storage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/filesystem.h"
#include "base/progress.h"
#include "base/retry.h"

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

// A file open for writing; closing reports errors, the destructor does not.
class Output {
 public:
  explicit Output(const std::filesystem::path& path) : path_(path) {
    announce(Step::create_file, path);
    fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd_ < 0) fail("create", path, errno);
  }
  ~Output() {
    if (fd_ >= 0) ::close(fd_);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(std::string_view content) {
    announce(Step::write, path_);
    while (!content.empty()) {
      const ssize_t n = ::write(fd_, content.data(), content.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("write", path_, errno);
      content.remove_prefix(static_cast<size_t>(n));
    }
  }
  void sync() {
    announce(Step::sync, path_);
    if (::fsync(fd_) != 0) fail("fsync", path_, errno);
  }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace

void set_hook(Hook h) { hook() = std::move(h); }

void announce(Step step, const std::filesystem::path& path) {
  if (hook()) hook()(step, path);
}

void make_folder(const std::filesystem::path& path) {
  announce(Step::make_folder, path);
  if (::mkdir(path.c_str(), 0755) != 0) fail("create the folder", path, errno);
}

void make_folders(const std::filesystem::path& path) {
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored)) return;
  if (path.has_parent_path() && path.parent_path() != path) make_folders(path.parent_path());
  announce(Step::make_folder, path);
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) fail("create the folder", path, errno);
  sync(parent_of(path));
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  Output file(path);
  file.write(content);
  file.sync();
}

void copy_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  constexpr size_t kPiece = size_t{8} << 20;
  std::ifstream in(from, std::ios::binary);
  if (!in) fail("open", from, errno);
  Output file(to);
  std::vector<char> piece(kPiece);
  do {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    if (in.bad()) fail("read", from, errno);
    file.write({piece.data(), static_cast<size_t>(in.gcount())});
    progress();
  } while (in);
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
    if (error && (error != std::errc::no_such_file_or_directory || is_there(folder)))
      fail_reading("list", folder, error.value());
    std::sort(entries.begin(), entries.end());
    return entries;
  });
}

}  // namespace fp::storage
