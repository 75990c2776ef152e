#include "data/pending.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/filesystem.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

fs::path beside(fs::path target, const char* what) { return target += fmt::format(".{}.{}", what, ::getpid()); }

[[noreturn]] void fail_at(const fs::path& path, const char* what) {
  throw DataError(fmt::format("{}: cannot {}: {}", path.string(), what, std::strerror(errno)));
}

// A descriptor that holds a lock on the folder; -1 where another process holds it, or there are no locks.
int try_lock(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 || ::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  ::close(fd);
  return -1;
}

void remove_abandoned(const fs::path& target) {
  const std::string prefix = target.filename().string() + ".tmp.";
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::absolute(target).parent_path(), ignored)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name.starts_with(prefix) && name.find_first_not_of("0123456789", prefix.size()) == name.npos;
    if (!ours || !entry.is_directory(ignored)) continue;
    const int lock = try_lock(entry.path());
    if (lock < 0) continue;
    fs::remove_all(entry.path(), ignored);
    ::close(lock);
  }
}

}  // namespace

PendingPath::PendingPath(const fs::path& target) : target_(target), path_(beside(target, "tmp")) {
  std::error_code ignored;
  fs::remove(path_, ignored);
}

PendingPath::~PendingPath() {
  std::error_code ignored;
  fs::remove(path_, ignored);
}

void PendingPath::publish() {
  fsync_path(path_);
  if (::rename(path_.c_str(), target_.c_str()) != 0) fail_at(target_, "rename into place");
  fsync_path(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
}

PendingFile::PendingFile(const fs::path& target) : pending_(target), file_(std::fopen(pending_.path().c_str(), "wb")) {
  if (!file_) fail("create");
}

void PendingFile::fail(const char* what) const { fail_at(pending_.path(), what); }

void PendingFile::write(std::span<const std::byte> bytes) {
  if (!bytes.empty() && std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) fail("write");
}

void PendingFile::rewrite_begin(std::span<const std::byte> bytes) {
  if (std::fseek(file_.get(), 0, SEEK_SET) != 0) fail("write");
  write(bytes);
  if (std::fseek(file_.get(), 0, SEEK_END) != 0) fail("write");
}

void PendingFile::publish() {
  if (std::fflush(file_.get()) != 0) fail("write");
  if (::fsync(::fileno(file_.get())) != 0) fail("fsync");
  file_.reset();
  pending_.publish();
}

PendingFolder::PendingFolder(const fs::path& target) : target_(target), path_(beside(target, "tmp")) {
  remove_abandoned(target);
  std::error_code error;
  fs::remove_all(path_, error);
  fs::create_directories(path_, error);
  if (error) throw DataError(fmt::format("{}: cannot create the folder: {}", path_.string(), error.message()));
  lock_ = try_lock(path_);
}

PendingFolder::~PendingFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

void PendingFolder::publish() {
  fsync_path(path_);
  const fs::path old = beside(target_, "old");
  std::error_code error;
  // In one step where the file system can: who is killed here leaves the old folder or the new one.
  const bool swapped = ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0;
  if (swapped) return fsync_path(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
  if (fs::exists(target_)) fs::rename(target_, old, error);
  if (!error) fs::rename(path_, target_, error);
  if (error) throw DataError(fmt::format("{}: cannot put the folder in place: {}", target_.string(), error.message()));
  fs::remove_all(old, error);
  fsync_path(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
}

}  // namespace fp
