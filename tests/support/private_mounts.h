// Mounts that only this process and its children see, for tests of read-only and failing disks.
#pragma once

#include <sched.h>
#include <sys/mount.h>

#include <filesystem>

namespace fp::test {

// Makes later mounts of this process private. Returns false when this user lacks the rights.
inline bool make_mounts_private() {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) == 0;
}

// Makes a folder read-only until destroyed.
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

  // Returns false when this user lacks the rights to mount.
  bool read_only() const { return read_only_; }

 private:
  std::filesystem::path folder_;
  bool bound_ = false, read_only_ = false;
};

}  // namespace fp::test
