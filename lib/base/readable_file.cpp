#include "base/readable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"

namespace fp {
namespace {

// Pauses double from the first to the longest: 25 tries take 38 s.
constexpr int kTries = 25;
constexpr double kFirstPause = 0.1, kLongestPause = 2.0;

ReadCalls& read_calls() {
  static ReadCalls calls;
  return calls;
}

// A server that was away for a moment, or a handle that it has forgotten.
bool may_pass(int error) { return error == ESTALE || error == EIO || error == ETIMEDOUT; }

void pause(double seconds) {
  if (read_calls().pause) return read_calls().pause(seconds);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// Calls attempt() until it returns 0 or more; it leaves its reason in errno. `again` runs before each further try.
template <class Attempt, class Again>
auto patiently(const std::filesystem::path& path, const std::string& what, Attempt&& attempt, Again&& again) {
  double seconds = kFirstPause;
  for (int tries = 1;;) {
    const auto result = attempt();
    if (result >= 0) return result;
    const int error = errno;
    if (error == EINTR) continue;
    const std::string text = fmt::format("{}: cannot {}: {}", path.string(), what, std::strerror(error));
    if (!may_pass(error)) throw DataError(text);
    if (tries == kTries) throw InfrastructureError(fmt::format("{} (tried {} times)", text, kTries));
    if (tries++ == 1) log::warning("{}; trying again", text);
    pause(seconds);
    seconds = std::min(2 * seconds, kLongestPause);
    progress();
    again();
  }
}

}  // namespace

void set_read_calls(ReadCalls calls) { read_calls() = std::move(calls); }

FileFacts facts_of(const std::filesystem::path& path) {
  struct stat info {};
  patiently(
      path, "see the file", [&] { return ::stat(path.c_str(), &info); }, [] {});
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

ReadableFile::ReadableFile(const std::filesystem::path& path) : path_(path), descriptor_(open()) {}

std::shared_ptr<const ReadableFile::Descriptor> ReadableFile::open() const {
  return std::make_shared<const Descriptor>(patiently(
      path_, "open", [&] { return ::open(path_.c_str(), O_RDONLY | O_CLOEXEC); }, [] {}));
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
    const auto attempt = [&]() -> ssize_t {
      const auto file = current();
      const auto offset = static_cast<off_t>(from);
      if (read_calls().read) return read_calls().read(file->number, out.data() + got, out.size() - got, offset);
      return ::pread(file->number, out.data() + got, out.size() - got, offset);
    };
    const ssize_t n = patiently(path_, fmt::format("read {} bytes from byte {}", out.size() - got, from), attempt,
                                [this] { reopen(); });
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  return got;
}

}  // namespace fp
