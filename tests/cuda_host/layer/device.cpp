// cuda/runtime/device.h on the CPU: memory of the execution layer, and streams that are always idle.
#include "cuda/runtime/device.h"

#include <cstring>

#include "base/error.h"
#include "cuda_host/memory.h"

namespace fp::cuda {

struct Device::State {
  DeviceFacts facts{0, "the CPU, as a GPU under test", 9, 0, 4, 227 * 1024, size_t{1} << 30, "under test"};
  std::shared_ptr<std::byte> scratch;
  size_t scratch_bytes = 0;
};

Device::Device(int) : state_(std::make_unique<State>()) {}
Device::~Device() = default;
const DeviceFacts& Device::facts() const { return state_->facts; }
size_t Device::free_bytes() const { return state_->facts.memory_bytes; }
Stream Device::compute() const { return nullptr; }
std::shared_ptr<std::byte> Device::allocate(size_t bytes) { return host::allocate(bytes); }

std::byte* Device::scratch(size_t bytes) {
  FP_CHECK(bytes <= state_->scratch_bytes, "{} bytes of scratch wanted, {} reserved", bytes, state_->scratch_bytes);
  state_->scratch = host::allocate(bytes);  // unwritten, so that reads of an earlier call's data are reported
  return state_->scratch.get();
}
void Device::reserve_scratch(size_t bytes) { state_->scratch_bytes = std::max(state_->scratch_bytes, bytes); }
size_t Device::scratch_bytes() const { return state_->scratch_bytes; }

void Device::copy_in(void* device, const void* host, size_t bytes) {
  host::host_wrote(device, bytes);
  std::memcpy(device, host, bytes);
}
void Device::copy_out(void* host, const void* device, size_t bytes) { std::memcpy(host, device, bytes); }
void Device::copy(void* to, const void* from, size_t bytes) {
  host::host_reads(from, bytes, "by a copy");
  host::host_wrote(to, bytes);
  std::memmove(to, from, bytes);
}
void Device::zero(void* device, size_t bytes) {
  host::host_wrote(device, bytes);
  std::memset(device, 0, bytes);
}
void Device::synchronize() {}

}  // namespace fp::cuda
