#include "base/filesystem.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/progress.h"

namespace fp {
namespace {

[[noreturn]] void fail(const char* what, const std::filesystem::path& path) {
  throw DataError(fmt::format("{}: cannot {}: {}", path.string(), what, std::strerror(errno)));
}

// Closes a descriptor at the end of a scope.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

std::string hex(XXH128_hash_t h) { return fmt::format("{:016x}{:016x}", h.high64, h.low64); }

void write_and_sync(const std::filesystem::path& path, std::string_view content) {
  const Descriptor file{::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
  if (file.fd < 0) fail("create", path);
  while (!content.empty()) {
    const ssize_t n = ::write(file.fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write", path);
    content.remove_prefix(static_cast<size_t>(n));
  }
  if (::fsync(file.fd) != 0) fail("fsync", path);
}

}  // namespace

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  const bool there = std::filesystem::exists(path, error);
  if (error) throw DataError(fmt::format("{}: {}", path.string(), error.message()));
  return there;
}

std::string message_of(const std::filesystem::filesystem_error& error) {
  if (error.path1().empty()) return error.what();
  return fmt::format("{}{}{}: {}", error.path1().string(), error.path2().empty() ? "" : " -> ", error.path2().string(),
                     error.code().message());
}

std::string read_file(const std::filesystem::path& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) fail("open", path);
  std::string content;
  std::vector<char> buffer(1 << 16);
  for (;;) {
    const ssize_t n = ::read(file.fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read", path);
    if (n == 0) return content;
    content.append(buffer.data(), static_cast<size_t>(n));
  }
}

void fsync_path(const std::filesystem::path& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) fail("open", path);
  if (::fsync(file.fd) != 0) fail("fsync", path);
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  std::filesystem::path temporary = path;
  temporary += fmt::format(".tmp.{}", ::getpid());
  try {
    write_and_sync(temporary, content);
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail("rename into place", path);
  } catch (const DataError&) {
    ::unlink(temporary.c_str());
    throw;
  }
  fsync_path(path.has_parent_path() ? path.parent_path() : std::filesystem::path("."));
}

std::string hash_bytes(const void* data, size_t bytes) { return hex(XXH3_128bits(data, bytes)); }

std::string hash_file(const std::filesystem::path& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) fail("open", path);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(), XXH3_freeState);
  XXH3_128bits_reset(hash.get());
  std::vector<char> buffer(1 << 18);  // stays in a core's cache
  for (;;) {
    const ssize_t n = ::read(file.fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read", path);
    if (n == 0) return hex(XXH3_128bits_digest(hash.get()));
    XXH3_128bits_update(hash.get(), buffer.data(), static_cast<size_t>(n));
    progress();
  }
}

std::vector<std::filesystem::path> matching_files(const std::string& pattern) {
  if (is_there(pattern)) return {pattern};
  glob_t found{};
  const int rc = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::filesystem::path> files;
  if (rc == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  std::sort(files.begin(), files.end());
  return files;
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) fail("open", path);
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) fail("stat", path);
  if (!S_ISREG(info.st_mode)) throw DataError(fmt::format("{}: is not a regular file", path.string()));
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;
  void* map = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.fd, 0);
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
