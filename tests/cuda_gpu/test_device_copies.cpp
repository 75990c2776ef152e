// Copies between host and device of many sizes, which share the device's staging buffers.
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <vector>

#include "backends.h"
#include "cuda/runtime/device.h"

using namespace fp;

TEST_CASE("uploads of many sizes arrive whole, with downloads between them") {
  (void)test::backends();  // skips where there is no GPU
  cuda::Device device(0);
  constexpr size_t kBytes = size_t{96} << 20, kStaging = size_t{16} << 20;
  const std::shared_ptr<std::byte> memory = device.allocate(kBytes);
  std::vector<std::byte> expected(kBytes), got(kBytes);
  device.copy_in(memory.get(), expected.data(), kBytes);
  std::mt19937_64 random(5);
  std::vector<std::byte> piece;
  for (int i = 0; i < 4000; ++i) {
    // Mostly small, some nearly as large as a staging buffer or larger.
    const size_t most = i % 500 == 499 ? 2 * kStaging : i % 100 == 99 ? kStaging + 1 : 20000;
    const size_t bytes = 1 + random() % most, at = random() % (kBytes - bytes + 1);
    piece.resize(bytes);
    std::memset(piece.data(), static_cast<int>(random() % 256), bytes);
    device.copy_in(memory.get() + at, piece.data(), bytes);
    std::memcpy(expected.data() + at, piece.data(), bytes);
    std::memset(piece.data(), 0, bytes);  // copy_in has taken it
    if (i % 37 != 0) continue;
    device.copy_out(got.data(), memory.get() + at, bytes);
    REQUIRE(std::memcmp(got.data(), expected.data() + at, bytes) == 0);
  }
  device.copy_out(got.data(), memory.get(), kBytes);
  CHECK(got == expected);
}
