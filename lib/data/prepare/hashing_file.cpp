#include "data/prepare/hashing_file.h"

#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace fp {

void HashingFile::Close::operator()(std::FILE* file) const { std::fclose(file); }
void HashingFile::FreeState::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

HashingFile::HashingFile(const std::filesystem::path& path)
    : path_(path), file_(std::fopen(path.c_str(), "wb")), state_(XXH3_createState()) {
  if (!file_) fail("create");
  XXH3_128bits_reset(state_.get());
}

void HashingFile::fail(const char* what) const {
  throw DataError(fmt::format("{}: cannot {}: {}", path_.string(), what, std::strerror(errno)));
}

void HashingFile::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) fail("write");
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  blocks_.add(bytes);
  bytes_ += bytes.size();
}

FileRecord HashingFile::close() {
  if (std::fflush(file_.get()) != 0) fail("write");
  if (::fsync(::fileno(file_.get())) != 0) fail("fsync");
  file_.reset();
  const XXH128_hash_t h = XXH3_128bits_digest(state_.get());
  return {path_.filename().string(), bytes_, fmt::format("{:016x}{:016x}", h.high64, h.low64)};
}

}  // namespace fp
