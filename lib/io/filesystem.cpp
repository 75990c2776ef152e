#include "io/filesystem.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/memory_error.h"
#include "base/progress.h"
#include "io/file_status.h"
#include "io/new_file.h"
#include "io/retry.h"

namespace fp {
namespace {

[[noreturn]] void fail(const char* what, const std::filesystem::path& path) { fail_file(path, what, errno); }

std::string hex(XXH128_hash_t h) { return fmt::format("{:016x}{:016x}", h.high64, h.low64); }

// Passes all bytes of a file to `take`, in pieces.
void read_all(const std::filesystem::path& path, size_t piece, const std::function<void(const char*, size_t)>& take) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) fail_reading("open", path, errno);
  std::vector<char> buffer(piece);
  for (;;) {
    const ssize_t n = ::read(file.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_reading("read", path, errno);
    if (n == 0) return;
    take(buffer.data(), static_cast<size_t>(n));
  }
}

// Returns whether `path` is the file that `before` describes.
bool is_same_file(const struct stat& before, const std::filesystem::path& path) {
  struct stat now {};
  return ::lstat(path.c_str(), &now) == 0 && now.st_dev == before.st_dev && now.st_ino == before.st_ino;
}

void write_and_sync(const std::filesystem::path& path, std::string_view content) {
  const FileDescriptor file = create_file(path);
  while (!content.empty()) {
    const ssize_t n = ::write(file.get(), content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write", path);
    content.remove_prefix(static_cast<size_t>(n));
  }
  if (::fsync(file.get()) != 0) fail("fsync", path);
}

}  // namespace

bool path_exists(const std::filesystem::path& path) { return stat_path(path).has_value(); }

std::optional<uint64_t> size_of_file(const std::filesystem::path& path) {
  const std::optional<struct stat> info = stat_path(path);
  if (!info || !S_ISREG(info->st_mode)) return std::nullopt;
  return static_cast<uint64_t>(info->st_size);
}

ExitCode exit_code_of(int error) { return is_transient(error) ? ExitCode::infrastructure : ExitCode::bad_data; }

void fail_file(const std::filesystem::path& path, const char* what, int error) {
  throw DataError(fmt::format("{}: cannot {}: {}", path.string(), what, std::strerror(error)), exit_code_of(error));
}

std::string message_of(const std::filesystem::filesystem_error& error) {
  if (error.path1().empty()) return error.what();
  return fmt::format("{}{}{}: {}", error.path1().string(), error.path2().empty() ? "" : " -> ", error.path2().string(),
                     error.code().message());
}

std::string read_file(const std::filesystem::path& path) {
  return with_retries([&] {
    std::string content;
    read_all(path, 1 << 16, [&](const char* data, size_t bytes) {
      if (content.capacity() - content.size() < bytes) {
        const uint64_t wanted = std::max(2 * content.capacity(), content.size() + bytes);
        with_memory_for(
            wanted, [&] { return path.string(); }, [&] { content.reserve(wanted); });
      }
      content.append(data, bytes);
    });
    return content;
  });
}

void fsync_path(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) fail("open", path);
  if (::fsync(file.get()) == 0) return;
  const int error = errno;
  // FUSE and CIFS may not support fsync of a folder; then syncing its files must suffice.
  struct stat info {};
  if ((error == EINVAL || error == ENOTSUP) && ::fstat(file.get(), &info) == 0 && S_ISDIR(info.st_mode)) return;
  errno = error;
  fail("fsync", path);
}

bool rename_path(const std::filesystem::path& from, const std::filesystem::path& to) {
  struct stat before {};
  const bool known = ::lstat(from.c_str(), &before) == 0;
  if (::rename(from.c_str(), to.c_str()) == 0) return true;
  const int error = errno;
  const bool done = error == ENOENT && known && is_same_file(before, to);
  errno = error;
  return done;
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  const std::filesystem::path temporary = temporary_beside(path);
  try {
    write_and_sync(temporary, content);
    if (!rename_path(temporary, path)) fail("rename into place", path);
  } catch (const DataError&) {
    ::unlink(temporary.c_str());
    throw;
  }
  fsync_path(path.has_parent_path() ? path.parent_path() : std::filesystem::path("."));
}

struct ContentHash::State {
  XXH3_state_t* xxh3 = XXH3_createState();
  State() { XXH3_128bits_reset(xxh3); }
  ~State() { XXH3_freeState(xxh3); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

ContentHash::ContentHash() : state_(std::make_unique<State>()) {}
ContentHash::~ContentHash() = default;
void ContentHash::add(const void* data, size_t bytes) { XXH3_128bits_update(state_->xxh3, data, bytes); }
std::string ContentHash::digits() const { return hex(XXH3_128bits_digest(state_->xxh3)); }
std::filesystem::path set_aside_broken(const std::filesystem::path& path) {
  std::filesystem::path aside;
  std::error_code ignored;
  int number = 1;
  do {
    aside = path;
    aside += fmt::format(".broken-{}", number++);
  } while (std::filesystem::exists(std::filesystem::symlink_status(aside, ignored)));
  if (::rename(path.c_str(), aside.c_str()) != 0) fail("rename", path);
  return aside;
}

std::string hash_bytes(const void* data, size_t bytes) { return hex(XXH3_128bits(data, bytes)); }

std::string hash_file(const std::filesystem::path& path) {
  return with_retries([&] {
    ContentHash hash;
    constexpr size_t kPiece = 1 << 18;  // fits into a core's cache
    read_all(path, kPiece, [&](const char* data, size_t bytes) {
      hash.add(data, bytes);
      progress();
    });
    return hash.digits();
  });
}

std::vector<std::filesystem::path> matching_files(const std::string& pattern) {
  if (path_exists(pattern)) return {pattern};
  glob_t found{};
  const int rc = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::filesystem::path> files;
  if (rc == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  std::sort(files.begin(), files.end());
  return files;
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) fail("open", path);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail("stat", path);
  if (!S_ISREG(info.st_mode)) throw DataError(fmt::format("{}: is not a regular file", path.string()));
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;
  void* map = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (map == MAP_FAILED) fail("map", path);
  data_ = static_cast<const std::byte*>(map);
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace fp
