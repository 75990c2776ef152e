#include "bench/disk_benchmark.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "base/stopwatch.h"
#include "io/filesystem.h"

namespace fp {
namespace {

constexpr int64_t kChunk = int64_t{8} << 20;

// A temporary file. It has no name after its creation, so that it disappears even if the process is killed.
class ScratchFile {
 public:
  explicit ScratchFile(const std::filesystem::path& folder) : path_((folder / "fptrain-bench-XXXXXX").string()) {
    fd_ = ::mkstemp(path_.data());
    if (fd_ < 0) fail("cannot be created");
    ::unlink(path_.c_str());
  }
  ~ScratchFile() { ::close(fd_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  int fd() const { return fd_; }
  [[noreturn]] void fail(const char* what) const {
    throw DataError(fmt::format("{}: {}: {}", path_, what, std::generic_category().message(errno)));
  }

 private:
  std::string path_;
  int fd_ = -1;
};

double cached_share(int fd, int64_t bytes) {
  const auto size = static_cast<size_t>(bytes), page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* const map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) return 1;
  std::vector<unsigned char> pages((size + page - 1) / page);
  const bool known = ::mincore(map, size, pages.data()) == 0;
  ::munmap(map, size);
  if (!known) return 1;
  const auto held = std::ranges::count_if(pages, [](unsigned char p) { return (p & 1) != 0; });
  return static_cast<double>(held) / static_cast<double>(pages.size());
}

}  // namespace

DiskRates benchmark_disk(const std::filesystem::path& folder, int64_t bytes) {
  std::vector<uint64_t> noise(kChunk / 8);
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = Philox::mix(i);
  const ScratchFile file(folder);
  const auto in_chunks = [&](const char* what, auto move) {
    for (int64_t done = 0; done < bytes;) {
      const ssize_t moved = move(static_cast<size_t>(std::min(kChunk, bytes - done)), done);
      if (moved <= 0) file.fail(what);
      done += moved;
    }
  };
  DiskRates r;
  r.bytes = bytes;
  const double write = seconds_of([&] {
    in_chunks("cannot be written", [&](size_t n, off_t at) { return ::pwrite(file.fd(), noise.data(), n, at); });
    if (::fsync(file.fd()) != 0) file.fail("cannot be written");
  });
  ::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  r.cached = cached_share(file.fd(), bytes);
  const double read = seconds_of([&] {
    in_chunks("cannot be read", [&](size_t n, off_t at) { return ::pread(file.fd(), noise.data(), n, at); });
  });
  r.write_bytes_per_s = static_cast<double>(bytes) / write;
  r.read_bytes_per_s = static_cast<double>(bytes) / read;
  return r;
}

}  // namespace fp
