#include "io/pending.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "base/error.h"
#include "io/filesystem.h"
#include "io/new_file.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_at(const fs::path& path, const char* what) {
  throw DataError(fmt::format("{}: cannot {}: {}", path.string(), what, std::strerror(errno)));
}

fs::path parent_of(const fs::path& target) { return target.has_parent_path() ? target.parent_path() : fs::path("."); }

fs::path lease_of(fs::path folder) { return folder += ".lease"; }

// Removes the temporary folders of `target`, and their leases, whose creators have ended.
void remove_abandoned(const fs::path& target) {
  const std::string prefix = target.filename().string() + ".tmp.", suffix = lease_of("").string();
  std::error_code ignored;
  std::set<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent_of(fs::absolute(target)), ignored)) {
    std::string name = entry.path().filename().string();
    const bool is_lease = name.ends_with(suffix);
    if (is_lease) name.resize(name.size() - suffix.size());
    const bool ours = name.starts_with(prefix) && name.size() > prefix.size() &&
                      name.find_first_not_of("0123456789abcdef.", prefix.size()) == name.npos;
    if (ours && (is_lease || entry.is_directory(ignored))) found.insert(entry.path().parent_path() / name);
  }
  for (const fs::path& folder : found) {
    try {
      const Lease lease(lease_of(folder), Lease::Patience::none);
      fs::remove_all(folder, ignored);
    } catch (const UserError&) {  // its creator is, or may be, still running
    }
  }
}

// Returns whether the file system can exchange two adjacent folders in one step.
bool can_exchange(const fs::path& beside) {
  const fs::path other = fs::path(beside) += ".probe";
  std::error_code error;
  if (!fs::create_directory(other, error)) return false;
  const bool done = ::renameat2(AT_FDCWD, other.c_str(), AT_FDCWD, beside.c_str(), RENAME_EXCHANGE) == 0;
  fs::remove(other, error);
  return done;
}

}  // namespace

PendingPath::PendingPath(const fs::path& target) : target_(target), path_(temporary_beside(target)) {}

PendingPath::~PendingPath() {
  std::error_code ignored;
  fs::remove(path_, ignored);
}

void PendingPath::publish() {
  fsync_path(path_);
  if (!rename_path(path_, target_)) fail_at(target_, "rename into place");
  fsync_path(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
}

PendingFile::PendingFile(const fs::path& target) : pending_(target), file_(std::fopen(pending_.path().c_str(), "wbx")) {
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

PendingFolder::PendingFolder(const fs::path& target) : target_(target), path_(temporary_beside(target)) {
  std::error_code error;
  fs::create_directories(parent_of(path_), error);
  if (error)
    throw DataError(fmt::format("{}: cannot create the folder: {}", parent_of(path_).string(), error.message()));
  remove_abandoned(target);
  lease_.emplace(lease_of(path_));
  if (!fs::create_directory(path_, error))
    throw DataError(fmt::format("{}: cannot create the folder: {}", path_.string(), error.message()));
  if (path_exists(target_) && !can_exchange(path_)) {
    fs::remove_all(path_, error);
    throw DataError(
        fmt::format("{}: exists already, and this file system cannot exchange two folders in one step: a process "
                    "killed in between would leave neither; move it away first, or choose another name",
                    target_.string()));
  }
}

PendingFolder::~PendingFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void PendingFolder::publish() {
  fsync_path(path_);
  lease_->require();
  // In one step: a process killed here leaves the old folder or the new one, never neither.
  const bool placed = ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0 ||
                      (!path_exists(target_) && rename_path(path_, target_));
  if (!placed) fail_at(target_, "put the folder in place");
  fsync_path(parent_of(target_));
}

}  // namespace fp
