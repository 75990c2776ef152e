#include "base/readable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/retry.h"

namespace fp {
namespace {

ReadCall& read_call() {
  static ReadCall call;
  return call;
}

// attempt(), until it returns 0 or more; it leaves its reason in errno.
template <class Attempt>
auto patiently(const std::filesystem::path& path, const std::string& what, const Attempt& attempt) {
  return with_retries([&] {
    for (;;) {
      const auto result = attempt();
      if (result >= 0) return result;
      if (errno != EINTR) fail_reading(what, path, errno);
    }
  });
}

}  // namespace

void set_read_call(ReadCall call) { read_call() = std::move(call); }

FileFacts facts_of(const std::filesystem::path& path) {
  struct stat info {};
  patiently(path, "see the file", [&] { return ::stat(path.c_str(), &info); });
  if (!S_ISREG(info.st_mode)) throw DataError(fmt::format("{}: is not a regular file", path.string()));
  return {static_cast<uint64_t>(info.st_size), info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec,
          static_cast<uint64_t>(info.st_ino)};
}

struct ReadableFile::Descriptor {
  explicit Descriptor(int d) : number(d) {}
  ~Descriptor() { ::close(number); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  const int number;
};

ReadableFile::ReadableFile(const std::filesystem::path& path)
    : path_(path), descriptor_(with_retries([this] { return open(); })) {}

std::shared_ptr<const ReadableFile::Descriptor> ReadableFile::open() const {
  const int descriptor = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_reading("open", path_, errno);
  return std::make_shared<const Descriptor>(descriptor);
}

std::shared_ptr<const ReadableFile::Descriptor> ReadableFile::current() {
  const std::lock_guard lock(mutex_);
  return descriptor_;
}

// A handle that the server has forgotten stays so: only the path leads to the file again.
void ReadableFile::reopen() {
  auto fresh = open();
  const std::lock_guard lock(mutex_);
  descriptor_ = std::move(fresh);
}

size_t ReadableFile::read(uint64_t at, std::span<std::byte> out) {
  size_t got = 0;
  while (got < out.size()) {
    const uint64_t from = at + got;
    bool again = false;
    const auto attempt = [&]() -> ssize_t {
      if (std::exchange(again, true)) reopen();
      const auto file = current();
      const auto offset = static_cast<off_t>(from);
      if (read_call()) return read_call()(file->number, out.data() + got, out.size() - got, offset);
      return ::pread(file->number, out.data() + got, out.size() - got, offset);
    };
    const ssize_t n = patiently(path_, fmt::format("read {} bytes from byte {}", out.size() - got, from), attempt);
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  return got;
}

}  // namespace fp
