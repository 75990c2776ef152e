// Mounts that only this process and its children see, for tests of disks that refuse.
#pragma once

#include <sched.h>
#include <sys/mount.h>

#include <filesystem>

namespace fp::testing {

// False where that takes rights this user lacks. From then on mounts of this process are its own.
inline bool make_mounts_private() {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) == 0;
}

// A folder that can only be read as long as this lives.
class ReadOnlyFolder {
 public:
  explicit ReadOnlyFolder(std::filesystem::path folder) : folder_(std::move(folder)) {
    bound_ = make_mounts_private() && ::mount(folder_.c_str(), folder_.c_str(), "", MS_BIND, nullptr) == 0;
    read_only_ = bound_ && ::mount("", folder_.c_str(), "", MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) == 0;
  }
  ~ReadOnlyFolder() {
    if (bound_) ::umount(folder_.c_str());
  }
  ReadOnlyFolder(const ReadOnlyFolder&) = delete;
  ReadOnlyFolder& operator=(const ReadOnlyFolder&) = delete;

  // False where mounting takes rights this user lacks.
  bool read_only() const { return read_only_; }

 private:
  std::filesystem::path folder_;
  bool bound_ = false, read_only_ = false;
};

}  // namespace fp::testing
