#include "train/permissions.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <optional>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/log.h"
#include "io/filesystem.h"

namespace fp {
namespace {

constexpr mode_t kAll = 0777;

std::optional<mode_t> mask_of(const RunSpec& spec) {
  if (spec.run.permissions == Permissions::owner) return 0077;
  if (spec.run.permissions == Permissions::group) return 0027;
  return std::nullopt;
}

// The umask before apply_permissions() changed it.
std::optional<mode_t>& original_mask() {
  static std::optional<mode_t> mask;
  return mask;
}

struct Folder {
  explicit Folder(const std::filesystem::path& path) : file(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (!file.is_open() || ::fstat(file.get(), &info) != 0) fail_file(path, "open", errno);
  }
  // Keeps the setuid, setgid and sticky bits.
  void set_mode(const std::filesystem::path& path, mode_t mode) const {
    if (::fchmod(file.get(), (info.st_mode & 07000) | mode) != 0) fail_file(path, "change the mode", errno);
  }
  FileDescriptor file;
  struct stat info {};
};

// Returns true when it created the folder.
bool make_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return false;
  if (::mkdir(path.c_str(), kAll) == 0) {
    try {
      fsync_path(path.parent_path());  // so that the run is still there after a power failure
    } catch (const UserError&) {       // a folder that this user may enter but not read
    }
    return true;
  }
  const int error = errno;
  if (error == EEXIST && std::filesystem::is_directory(path, ignored)) return false;  // made by another process
  fail_file(path, "create the run directory", error);
}

void make_parents(const std::filesystem::path& folder) {
  if (std::error_code ignored; !folder.has_relative_path() || std::filesystem::is_directory(folder, ignored)) return;
  make_parents(folder.parent_path());
  if (make_folder(folder) && original_mask()) Folder(folder).set_mode(folder, kAll & ~*original_mask());
}

}  // namespace

std::string umask_text(const RunSpec& spec) {
  const auto mask = mask_of(spec);
  return mask ? fmt::format("{:04o}", *mask) : std::string();
}

void apply_permissions(const RunSpec& spec) {
  const auto mask = mask_of(spec);
  if (!mask) return;
  const mode_t before = ::umask(*mask);
  if (!original_mask()) original_mask() = before;
}

void make_run_folder(const RunSpec& spec, const std::filesystem::path& folder) {
  std::filesystem::path path = std::filesystem::absolute(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  make_parents(path.parent_path());
  const bool is_new = make_folder(path);
  const auto mask = mask_of(spec);
  if (!mask) return;
  const Folder made(path);
  const mode_t wanted = kAll & ~*mask, found = made.info.st_mode & kAll;
  if (found == wanted) return;
  if (made.info.st_uid == ::geteuid()) {
    made.set_mode(path, wanted);
    if (!is_new)
      log::info("{}: its mode was {:04o} and is {:04o} now (run.permissions = {})", path.string(), found, wanted,
                spec.run.permissions);
  } else if ((found & ~wanted) != 0) {
    throw ConfigError(
        fmt::format("run.permissions = {}: {} belongs to another user, and its mode {:04o} opens it to more people; "
                    "choose another run.directory, or run.permissions = umask",
                    spec.run.permissions, path.string(), found));
  }
}

void write_as_private_as(const std::filesystem::path& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) == 0) ::umask(::umask(0077) | (kAll & ~(info.st_mode & kAll)));
}

}  // namespace fp
