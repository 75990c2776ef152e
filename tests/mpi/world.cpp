// Runs the suite of worlds on the ranks of mpirun. FP_TEST_LARGEST_MESSAGE: largest message in bytes; a small value
// splits little data into several messages. FP_TEST_DEVICE: tensors have addresses that the host cannot use, like a
// GPU's.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "comm/backends.h"
#include "comm/values.h"
#include "ops/ref/ref_ops.h"

namespace fp::test {
namespace {

constexpr uintptr_t kFar = uintptr_t{1} << 62;

void* other_side(const void* address) { return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) ^ kFar); }

struct FarOps final : fp::RefOps {
  std::optional<fp::DeviceMemory> device_memory() const override { return fp::DeviceMemory{}; }

 protected:
  using RefOps::run;
  void run(const fp::calls::CopyIn& c) override { std::memcpy(other_side(c.dst.data), c.host, c.dst.bytes()); }
  void run(const fp::calls::CopyOut& c) override { std::memcpy(c.host, other_side(c.src.data), c.src.bytes()); }
};

bool on_device() { return std::getenv("FP_TEST_DEVICE") != nullptr; }

fp::World& mpi_world() {
  static FarOps device;
  static const auto world = [] {
    const char* limit = std::getenv("FP_TEST_LARGEST_MESSAGE");
    auto made = limit != nullptr ? fp::make_mpi_world(std::atoll(limit)) : fp::make_mpi_world();
    if (on_device()) made->attach(device);
    return made;
  }();
  return *world;
}

}  // namespace

void run_worlds(const Body& body, Findings& findings) {
  body(mpi_world(), findings);
  everyone(mpi_world(), "end of test")->barrier();
}

void* device_address(void* host) { return on_device() ? other_side(host) : host; }

}  // namespace fp::test
