// MemoryWatch: which memory of the process counts.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "dryrun/memory_watch.h"
#include "host/resident_memory.h"
#include "ops/backends.h"

namespace fp::test {
namespace {

constexpr int64_t kMiB = 1 << 20;

// Maps so many bytes and brings all their pages into memory: of a file, or, with fd -1, anonymous ones.
void* mapped(int64_t bytes, int fd) {
  const int protection = fd < 0 ? PROT_READ | PROT_WRITE : PROT_READ, kind = fd < 0 ? MAP_ANONYMOUS : 0;
  void* const pages = ::mmap(nullptr, static_cast<size_t>(bytes), protection, MAP_PRIVATE | MAP_POPULATE | kind, fd, 0);
  REQUIRE(pages != MAP_FAILED);
  return pages;
}

}  // namespace

TEST_CASE("the peak has anonymous memory that was freed again, but no pages of programs", "[dryrun]") {
  const auto ops = make_cpu_ops();
  const MemoryWatch watch(*ops);
  const int fd = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  struct stat facts {};
  struct statfs system {};
  REQUIRE(::fstat(fd, &facts) == 0);
  REQUIRE(::fstatfs(fd, &system) == 0);
  const int64_t of_program = facts.st_size, anonymous = 64 * kMiB;
  REQUIRE(of_program > 2 * kMiB);
  const int64_t files_before = memory_use().file_bytes;
  void* const program = mapped(of_program, fd);
  ::close(fd);
  ::munmap(mapped(anonymous, -1), static_cast<size_t>(anonymous));
  const int64_t grown = watch.peak() - watch.before();
  // The kernel counts pages in batches, one for each core.
  CHECK(grown >= anonymous - 2 * kMiB);
  // In a file system in memory the pages of a program are memory like any other.
  if (system.f_type != TMPFS_MAGIC && files_before > 0) {
    CHECK(memory_use().file_bytes - files_before > of_program / 2);
    CHECK(grown <= anonymous + of_program / 2);
  }
  ::munmap(program, static_cast<size_t>(of_program));
}

}  // namespace fp::test
