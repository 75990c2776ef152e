#include "checkpoint/raw_bytes.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/filesystem.h"
#include "base/retry.h"

namespace fp {
namespace {

[[noreturn]] void fail(std::string_view what, const std::filesystem::path& path) {
  fail_file(path, std::string(what).c_str(), errno);
}

int open_to_read(const std::filesystem::path& path) {
  return with_retries([&] {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail_reading("open", path, errno);
    return fd;
  });
}

void read_from(int fd, const std::filesystem::path& path, void* to, size_t bytes, int64_t offset) {
  for (char* at = static_cast<char*>(to); bytes > 0;) {
    const ssize_t n = ::pread(fd, at, bytes, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_reading("read", path, errno);
    if (n == 0) throw DataError(fmt::format("{}: ends before its tensors do", path.string()));
    at += n;
    offset += n;
    bytes -= static_cast<size_t>(n);
  }
}

}  // namespace

RawReader::RawReader(std::filesystem::path path) : path_(std::move(path)), fd_(open_to_read(path_)) {}

RawReader::~RawReader() {
  ::close(fd_);
  for (const int fd : stale_) ::close(fd);
}

void RawReader::read(void* to, size_t bytes, int64_t offset) const {
  bool again = false;
  with_retries([&] {
    if (again) reopen();
    again = true;
    read_from(fd_, path_, to, bytes, offset);
  });
}

// A handle that has gone stale stays so; but other threads may still be reading from it.
void RawReader::reopen() const {
  const int fd = open_to_read(path_);
  const std::lock_guard lock(mutex_);
  stale_.push_back(fd_.exchange(fd));
}

void write_raw(int fd, const std::filesystem::path& path, const void* from, size_t bytes, int64_t offset) {
  for (const char* at = static_cast<const char*>(from); bytes > 0;) {
    const ssize_t n = ::pwrite(fd, at, bytes, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("write", path);
    at += n;
    offset += n;
    bytes -= static_cast<size_t>(n);
  }
}

}  // namespace fp
