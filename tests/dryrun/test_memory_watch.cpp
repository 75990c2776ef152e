// MemoryWatch: which memory of the process counts.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "dryrun/memory_watch.h"
#include "host/resident_memory.h"
#include "ops/backends.h"

namespace fp::test {
namespace {

constexpr int64_t kMiB = 1 << 20;

void touch(const char* pages, int64_t bytes) {
  volatile char read = 0;
  for (int64_t i = 0; i < bytes; i += 4096) read = pages[i];
  static_cast<void>(read);
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
  const int64_t of_program = facts.st_size, anonymous = 32 * kMiB;
  REQUIRE(of_program > 2 * kMiB);
  void* const program = ::mmap(nullptr, static_cast<size_t>(of_program), PROT_READ, MAP_PRIVATE, fd, 0);
  ::close(fd);
  REQUIRE(program != MAP_FAILED);
  touch(static_cast<const char*>(program), of_program);
  void* const block =
      ::mmap(nullptr, static_cast<size_t>(anonymous), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(block != MAP_FAILED);
  std::memset(block, 1, static_cast<size_t>(anonymous));
  ::munmap(block, static_cast<size_t>(anonymous));
  const int64_t grown = watch.peak() - watch.before();
  CHECK(grown >= anonymous - kMiB);
  // In a file system in memory the pages of a program are memory like any other.
  CHECK(grown <= anonymous + kMiB + (system.f_type == TMPFS_MAGIC ? of_program : 0));
  ::munmap(program, static_cast<size_t>(of_program));
}

}  // namespace fp::test
