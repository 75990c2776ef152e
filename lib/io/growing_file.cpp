#include "io/growing_file.h"

#include <unistd.h>

#include <cerrno>

#include "io/filesystem.h"
#include "io/new_file.h"

namespace fp {

GrowingFile::GrowingFile(const std::filesystem::path& path, int64_t keep) : path_(path), file_(open_to_append(path)) {
  if (::ftruncate(file_.get(), keep) != 0 || ::fsync(file_.get()) != 0) fail_file(path, "truncate", errno);
}

GrowingFile::~GrowingFile() {
  [[maybe_unused]] const ssize_t n = waiting_.empty() ? 0 : ::write(file_.get(), waiting_.data(), waiting_.size());
}

void GrowingFile::append(std::string_view more) {
  waiting_ += more;
  while (!waiting_.empty()) {
    const ssize_t n = ::write(file_.get(), waiting_.data(), waiting_.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_file(path_, "write", errno);
    waiting_.erase(0, static_cast<size_t>(n));
  }
}

}  // namespace fp
