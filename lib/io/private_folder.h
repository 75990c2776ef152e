// A folder that a process creates for itself where other users may write too: a node's /tmp, a group's scratch space.
//
// Its name is unpredictable, and no other user may enter it. All access goes through its descriptor, so that anything
// that others put in its place is never reached.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"

namespace fp {

class PrivateFolder {
 public:
  // Creates BASE/PREFIX<32 random hex digits> with mode 0700 and locks it (flock), which cleaners of temporary folders
  // respect. `base` may be a symbolic link. Throws ConfigError if `base` is not a folder, or its file system keeps no
  // owners and modes; DataError if the folder cannot be created.
  PrivateFolder(const std::filesystem::path& base, const std::string& prefix);
  // Removes the files whose names were passed to inside(), and the folder if it is then empty.
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  // The path at which it was created, for messages only: others may have put something else there.
  const std::filesystem::path& path() const { return path_; }
  // Returns a path to a file in the folder, whatever is at path(). Valid as long as this object lives.
  std::filesystem::path inside(const std::string& name);
  // Unlinks its files, and the folder itself if the file system allows that while files are open.
  void remove();

 private:
  void open(const std::string& name);

  std::filesystem::path path_;
  FileDescriptor base_, folder_;
  std::vector<std::string> names_;
};

// Removes the folders in `base` that killed processes of this user have left: those whose names satisfy `is_left` and
// that are not symbolic links, have mode 0700, belong to this user and are not locked. In them it removes only the
// files whose names satisfy `is_own_file`. The log names what is removed, and what has to stay and why. Does nothing if
// `base` cannot be listed.
void remove_left_folders(const std::filesystem::path& base, const std::function<bool(const std::string&)>& is_left,
                         const std::function<bool(const std::string&)>& is_own_file);

}  // namespace fp
