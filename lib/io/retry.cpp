#include "io/retry.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/progress.h"

namespace fp {
namespace {

constexpr int kAttempts = 11;
constexpr std::chrono::milliseconds kFirstWait{50};  // doubled after each attempt: 51 s in total

std::function<void(std::chrono::milliseconds)>& retry_wait() {
  static std::function<void(std::chrono::milliseconds)> wait;
  return wait;
}

void sleep_with_progress(std::chrono::milliseconds time) {
  constexpr std::chrono::milliseconds kPiece{1000};
  for (; time.count() > 0; time -= kPiece) {
    std::this_thread::sleep_for(std::min(time, kPiece));
    progress();
  }
}

// Returns whether the parent folder lists `path`. A dangling symbolic link does not count.
bool is_listed(const std::filesystem::path& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0) return !S_ISLNK(info.st_mode);
  std::error_code error;
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  for (auto it = std::filesystem::directory_iterator(parent, error); !error && it != std::filesystem::end(it);
       it.increment(error))
    if (it->path().filename() == path.filename()) return true;
  return false;
}

}  // namespace

bool is_transient(int error) {
  static constexpr std::array kTransient = {EIO,       ESTALE,       ETIMEDOUT,    EINTR,      EAGAIN,   EBUSY,
                                            ENOMEM,    ENOBUFS,      ENFILE,       EMFILE,     ENETDOWN, ENETUNREACH,
                                            EHOSTDOWN, EHOSTUNREACH, ECONNREFUSED, ECONNRESET, ENOTCONN, ECONNABORTED,
                                            ESHUTDOWN, EREMOTEIO,    ENOLINK,      EPROTO};
  return std::ranges::find(kTransient, error) != kTransient.end();
}

void fail_reading(std::string_view what, const std::filesystem::path& path, int error) {
  const std::string text = what.empty() ? fmt::format("{}: {}", path.string(), std::strerror(error))
                                        : fmt::format("{}: cannot {}: {}", path.string(), what, std::strerror(error));
  if (is_transient(error)) throw InfrastructureError(text);
  if (error == EACCES || error == EPERM) throw AccessError(text);
  if (error == ENOENT && is_listed(path)) throw InfrastructureError(text + ", although its folder lists it");
  throw DataError(text);
}

void set_retry_wait(std::function<void(std::chrono::milliseconds)> wait) { retry_wait() = std::move(wait); }

void wait_to_retry(int attempt, const InfrastructureError& e) {
  if (attempt >= kAttempts)
    throw InfrastructureError(
        fmt::format("{} (after {} attempts within a minute; the stored data may be intact)", e.what(), attempt));
  if (attempt == 1) log::warning("{}; trying again", e.what());
  const std::chrono::milliseconds time = kFirstWait * (1 << (attempt - 1));
  retry_wait() ? retry_wait()(time) : sleep_with_progress(time);
}

}  // namespace fp
