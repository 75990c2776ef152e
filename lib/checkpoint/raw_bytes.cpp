#include "checkpoint/raw_bytes.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace fp {
namespace {

[[noreturn]] void fail(std::string_view what, const std::filesystem::path& path) {
  throw DataError(fmt::format("{}: cannot {}: {}", path.string(), what, std::strerror(errno)));
}

}  // namespace

RawReader::RawReader(std::filesystem::path path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) fail("open", path_);
}

RawReader::~RawReader() { ::close(fd_); }

void RawReader::read(void* to, size_t bytes, int64_t offset) const {
  for (char* at = static_cast<char*>(to); bytes > 0;) {
    const ssize_t n = ::pread(fd_, at, bytes, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read", path_);
    if (n == 0) throw DataError(fmt::format("{}: ends before its tensors do", path_.string()));
    at += n;
    offset += n;
    bytes -= static_cast<size_t>(n);
  }
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
