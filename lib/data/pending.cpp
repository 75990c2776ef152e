#include "data/pending.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/filesystem.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

fs::path beside(fs::path target, const char* what) { return target += fmt::format(".{}.{}", what, ::getpid()); }

}  // namespace

PendingFile::PendingFile(const fs::path& target)
    : target_(target), path_(beside(target, "tmp")), file_(std::fopen(path_.c_str(), "wb")) {
  if (!file_) fail("create");
}

PendingFile::~PendingFile() {
  std::error_code ignored;
  fs::remove(path_, ignored);
}

void PendingFile::fail(const char* what) const {
  throw DataError(fmt::format("{}: cannot {}: {}", path_.string(), what, std::strerror(errno)));
}

void PendingFile::write(std::span<const std::byte> bytes) {
  if (!bytes.empty() && std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) fail("write");
}

void PendingFile::rewrite_begin(std::span<const std::byte> bytes) {
  if (std::fseek(file_.get(), 0, SEEK_SET) != 0) fail("write");
  write(bytes);
  if (std::fseek(file_.get(), 0, SEEK_END) != 0) fail("write");
}

void PendingFile::publish() {
  if (std::fflush(file_.get()) != 0) fail("write");
  if (::fsync(::fileno(file_.get())) != 0) fail("fsync");
  file_.reset();
  if (::rename(path_.c_str(), target_.c_str()) != 0) fail("rename into place");
  fsync_path(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
}

PendingFolder::PendingFolder(const fs::path& target) : target_(target), path_(beside(target, "tmp")) {
  std::error_code error;
  fs::remove_all(path_, error);
  fs::create_directories(path_, error);
  if (error) throw DataError(fmt::format("{}: cannot create the folder: {}", path_.string(), error.message()));
}

PendingFolder::~PendingFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void PendingFolder::publish() {
  fsync_path(path_);
  const fs::path old = beside(target_, "old");
  std::error_code error;
  if (fs::exists(target_)) fs::rename(target_, old, error);
  if (!error) fs::rename(path_, target_, error);
  if (error) throw DataError(fmt::format("{}: cannot put the folder in place: {}", target_.string(), error.message()));
  fs::remove_all(old, error);
  fsync_path(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
}

}  // namespace fp
