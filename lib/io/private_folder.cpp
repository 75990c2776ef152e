#include "io/private_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "base/random_digits.h"
#include "io/filesystem.h"

namespace fp {
namespace {

constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

FileDescriptor open_base(const std::filesystem::path& base) {
  FileDescriptor folder(::open(base.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder.is_open()) return folder;
  if (errno == ENOTDIR) throw ConfigError(fmt::format("{}: is not a folder", base.string()));
  if (errno == ENOENT) throw ConfigError(fmt::format("{}: no such folder", base.string()));
  fail_file(base, "open", errno);
}

// Returns why others may access a folder or have created it; empty: it is private. Mode bits beyond these nine, such as
// the set-group-id bit of a group's scratch space, do not give access.
std::string why_not_private(const struct stat& info) {
  if (S_ISLNK(info.st_mode)) return "it is a symbolic link";
  if (!S_ISDIR(info.st_mode)) return "it is not a folder";
  if (info.st_uid != ::geteuid())
    return fmt::format("it belongs to user {}, and this process to user {}", info.st_uid, ::geteuid());
  if ((info.st_mode & 0777) != 0700) return fmt::format("its mode is {:04o}, not 0700", info.st_mode & 07777);
  return {};
}

bool is_same(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

std::vector<std::string> names_in(int folder) {
  FileDescriptor again(::openat(folder, ".", kFolder));
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> list(again.is_open() ? ::fdopendir(again.get()) : nullptr, ::closedir);
  if (!list) return names;
  again.release();
  while (const dirent* entry = ::readdir(list.get()))
    if (const std::string name = entry->d_name; name != "." && name != "..") names.push_back(name);
  std::ranges::sort(names);
  return names;
}

// Opens and locks a folder that a killed process may have left. Returns why it must stay; empty: it may be removed.
std::string open_left(int base, const std::string& name, FileDescriptor& folder) {
  struct stat before {
  }, now{};
  if (::fstatat(base, name.c_str(), &before, AT_SYMLINK_NOFOLLOW) != 0) return std::strerror(errno);
  if (const std::string why = why_not_private(before); !why.empty()) return why;
  folder = FileDescriptor(::openat(base, name.c_str(), kFolder | O_NOFOLLOW));
  if (!folder.is_open() || ::fstat(folder.get(), &now) != 0) return std::strerror(errno);
  if (!is_same(before, now)) return "it was replaced by another";
  if (::flock(folder.get(), LOCK_EX | LOCK_NB) == 0) return {};
  return errno == EWOULDBLOCK ? "a process uses it" : fmt::format("it cannot be locked: {}", std::strerror(errno));
}

}  // namespace

PrivateFolder::PrivateFolder(const std::filesystem::path& base, const std::string& prefix)
    : path_(base / (prefix + random_digits())), base_(open_base(base)) {
  const std::string name = path_.filename();
  if (::mkdirat(base_.get(), name.c_str(), 0700) != 0) fail_file(path_, "create the folder", errno);
  try {
    open(name);
  } catch (...) {
    ::unlinkat(base_.get(), name.c_str(), AT_REMOVEDIR);
    throw;
  }
}

// Opens the new folder and verifies that it is the one that was created.
void PrivateFolder::open(const std::string& name) {
  folder_ = FileDescriptor(::openat(base_.get(), name.c_str(), kFolder | O_NOFOLLOW));
  struct stat info {
  }, by_descriptor{};
  if (!folder_.is_open() || ::fstat(folder_.get(), &info) != 0) fail_file(path_, "open", errno);
  if (const std::string why = why_not_private(info); !why.empty())
    throw ConfigError(fmt::format(
        "{}: this folder was made for this process alone, but {}; name a file system that keeps owners and modes",
        path_.string(), why));
  if (!names_in(folder_.get()).empty())
    throw DataError(fmt::format("{}: another process has put a folder in place of this new one", path_.string()));
  ::flock(folder_.get(), LOCK_EX | LOCK_NB);  // a folder that cannot be locked is never removed as left behind
  if (::stat(inside("").c_str(), &by_descriptor) != 0 || !is_same(info, by_descriptor))
    throw ConfigError(
        fmt::format("{}: cannot be reached by its descriptor: /proc is not mounted here", path_.string()));
  names_.clear();
}

PrivateFolder::~PrivateFolder() { remove(); }

std::filesystem::path PrivateFolder::inside(const std::string& name) {
  names_.push_back(name);
  return fmt::format("/proc/self/fd/{}/{}", folder_.get(), name);
}

void PrivateFolder::remove() {
  for (const std::string& name : names_) ::unlinkat(folder_.get(), name.c_str(), 0);
  struct stat mine {
  }, there{};
  const std::string name = path_.filename();
  if (::fstat(folder_.get(), &mine) == 0 && ::fstatat(base_.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
      is_same(mine, there))
    ::unlinkat(base_.get(), name.c_str(), AT_REMOVEDIR);
}

void remove_left_folders(const std::filesystem::path& base, const std::function<bool(const std::string&)>& is_left,
                         const std::function<bool(const std::string&)>& is_own_file) {
  const FileDescriptor all(::open(base.c_str(), kFolder));
  if (!all.is_open()) return;
  for (const std::string& name : names_in(all.get())) {
    if (!is_left(name)) continue;
    const std::string path = (base / name).string();
    FileDescriptor folder;
    if (const std::string why = open_left(all.get(), name, folder); !why.empty()) {
      log::warning("{} is not removed: {}", path, why);
      continue;
    }
    for (const std::string& file : names_in(folder.get()))
      if (is_own_file(file)) ::unlinkat(folder.get(), file.c_str(), 0);
    if (::unlinkat(all.get(), name.c_str(), AT_REMOVEDIR) == 0)
      log::info("removed {}, left by a run that was stopped", path);
    else
      log::warning("{} is not removed: {}", path, std::strerror(errno));
  }
}

}  // namespace fp
