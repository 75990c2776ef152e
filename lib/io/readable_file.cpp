#include "io/readable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "base/error.h"
#include "io/filesystem.h"
#include "io/retry.h"

namespace fp {
namespace {

ReadCall& read_call() {
  static ReadCall call;
  return call;
}

}  // namespace

void set_read_call(ReadCall call) { read_call() = std::move(call); }

ssize_t read_at(int descriptor, void* to, size_t bytes, off_t at) {
  return read_call() ? read_call()(descriptor, to, bytes, at) : ::pread(descriptor, to, bytes, at);
}

int open_plain_file(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0 && errno == ELOOP)
    throw DataError(fmt::format("{}: is a symbolic link, which is not followed here; put the file itself in its place",
                                path.string()));
  if (descriptor < 0) fail_reading("open", path, errno);
  struct stat info {};
  const int error = ::fstat(descriptor, &info) == 0 ? 0 : errno;
  if (error == 0 && S_ISREG(info.st_mode)) return descriptor;
  ::close(descriptor);
  if (error != 0) fail_reading("open", path, error);
  throw DataError(fmt::format("{}: is not a regular file", path.string()));
}

FileFacts facts_of(const std::filesystem::path& path) {
  struct stat info {};
  with_retries([&] {
    while (::stat(path.c_str(), &info) != 0)
      if (errno != EINTR) fail_reading("examine the file", path, errno);
  });
  if (!S_ISREG(info.st_mode)) throw DataError(fmt::format("{}: is not a regular file", path.string()));
  return {static_cast<uint64_t>(info.st_size), info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec,
          static_cast<uint64_t>(info.st_ino)};
}

struct ReadableFile::Handle {
  Handle(int d, bool owns) : descriptor(d), owned(owns) {}
  ~Handle() {
    if (owned) ::close(descriptor);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  const int descriptor;
  const bool owned;
};

ReadableFile::ReadableFile(std::filesystem::path path, Symlinks symlinks)
    : path_(std::move(path)), symlinks_(symlinks), handle_(with_retries([this] { return open(); })) {}

ReadableFile::ReadableFile(int descriptor, std::filesystem::path path)
    : path_(std::move(path)), handle_(std::make_shared<const Handle>(descriptor, false)) {}

ReadableFile::~ReadableFile() = default;

std::shared_ptr<const ReadableFile::Handle> ReadableFile::open() const {
  if (symlinks_ == Symlinks::refuse) return std::make_shared<const Handle>(open_plain_file(path_), true);
  const int descriptor = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_reading("open", path_, errno);
  return std::make_shared<const Handle>(descriptor, true);
}

std::shared_ptr<const ReadableFile::Handle> ReadableFile::current() const {
  const std::lock_guard lock(mutex_);
  return handle_;
}

ssize_t ReadableFile::patiently(const std::string& what, const std::function<ssize_t(int)>& attempt) const {
  bool again = false;
  return with_retries([&] {
    if (std::exchange(again, true) && current()->owned) {
      auto fresh = open();
      const std::lock_guard lock(mutex_);
      handle_ = std::move(fresh);
    }
    const std::shared_ptr<const Handle> handle = current();
    for (;;) {
      const ssize_t result = attempt(handle->descriptor);
      if (result >= 0) return result;
      if (errno != EINTR) fail_reading(what, path_, errno);
    }
  });
}

size_t ReadableFile::read(uint64_t at, std::span<std::byte> out) const {
  size_t got = 0;
  while (got < out.size()) {
    const uint64_t from = at + got;
    const std::string what = fmt::format("read {} bytes from byte {}", out.size() - got, from);
    const ssize_t n = patiently(what, [&](int descriptor) {
      return read_at(descriptor, out.data() + got, out.size() - got, static_cast<off_t>(from));
    });
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  return got;
}

void ReadableFile::read_exactly(uint64_t at, void* to, size_t bytes) const {
  const size_t got = read(at, {static_cast<std::byte*>(to), bytes});
  if (got < bytes)
    throw DataError(fmt::format("{}: ends at byte {}, but bytes {} to {} are needed", path_.string(), at + got, at,
                                at + bytes - 1));
}

uint64_t ReadableFile::bytes() const {
  struct stat info {};
  patiently("read the size", [&](int descriptor) { return ::fstat(descriptor, &info); });
  return static_cast<uint64_t>(info.st_size);
}

void write_at(int descriptor, const std::filesystem::path& path, const void* from, size_t bytes, int64_t offset) {
  for (const char* at = static_cast<const char*>(from); bytes > 0;) {
    const ssize_t n = ::pwrite(descriptor, at, bytes, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail_file(path, "write", errno);
    at += n;
    offset += n;
    bytes -= static_cast<size_t>(n);
  }
}

}  // namespace fp
