#include "report/growing_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/filesystem.h"

namespace fp {
GrowingFile::GrowingFile(const std::filesystem::path& path, int64_t keep) : path_(path) {
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_file(path, "open for writing", errno);
  if (::ftruncate(fd_, keep) == 0 && ::fsync(fd_) == 0) return;
  const int error = errno;
  ::close(fd_);
  fail_file(path, "truncate", error);
}

GrowingFile::~GrowingFile() {
  [[maybe_unused]] const ssize_t n = waiting_.empty() ? 0 : ::write(fd_, waiting_.data(), waiting_.size());
  ::close(fd_);
}

void GrowingFile::append(std::string_view more) {
  waiting_ += more;
  while (!waiting_.empty()) {
    const ssize_t n = ::write(fd_, waiting_.data(), waiting_.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_file(path_, "write", errno);
    waiting_.erase(0, static_cast<size_t>(n));
  }
}

}  // namespace fp
