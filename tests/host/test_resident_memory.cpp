#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "host/resident_memory.h"

using namespace fp;

TEST_CASE("resident memory follows touched pages and its peak can be reset") {
  constexpr size_t kBytes = size_t{64} << 20;
  const MemoryUse before = memory_use();
  CHECK(before.resident_bytes > 0);
  CHECK(before.peak_bytes >= before.resident_bytes);

  void* block = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(block != MAP_FAILED);
  std::memset(block, 1, kBytes);
  const MemoryUse during = memory_use();
  CHECK(during.resident_bytes >= before.resident_bytes + static_cast<int64_t>(kBytes * 9 / 10));
  ::munmap(block, kBytes);

  const MemoryUse after = memory_use();
  CHECK(after.resident_bytes < during.resident_bytes);
  // The kernel batches its counts per thread: allow a difference of a megabyte.
  CHECK(after.peak_bytes >= during.resident_bytes - (1 << 20));
  if (reset_peak_memory()) {
    CHECK(memory_use().peak_bytes < during.resident_bytes);
  } else {
    CHECK(memory_use().peak_bytes >= during.resident_bytes - (1 << 20));
  }
}
