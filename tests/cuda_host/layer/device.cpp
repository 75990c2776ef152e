// cuda/runtime/device.h on the CPU: memory of the execution layer, and streams that are always idle, but for the copies
// of start_copy(): each happens at once or only when it is waited for, at random.
#include "cuda/runtime/device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <random>

#include "base/error.h"
#include "cuda_host/memory.h"

namespace fp::cuda {

namespace {

struct LateCopy {
  CopyTicket ticket, after;
  void* to;
  const void* from;
  size_t bytes;
  std::function<void()> run;  // of the host's lane, instead of a copy
};

}  // namespace

struct Device::State {
  DeviceFacts facts{0, "the CPU, as a GPU under test", 9, 0, 4, 227 * 1024, size_t{1} << 30, "under test"};
  std::shared_ptr<std::byte> scratch;
  size_t scratch_bytes = 0;
  std::array<std::deque<LateCopy>, kLanes> late;
  std::mt19937 random{1};

  void run_until(const CopyTicket& t) {
    std::deque<LateCopy>& lane = late[index_of(t.lane)];
    while (!lane.empty() && lane.front().ticket.number <= t.number) {
      const LateCopy c = lane.front();
      lane.pop_front();
      run_until(c.after);
      if (c.run) {
        c.run();
        continue;
      }
      if (t.lane == CopyLane::to_host)
        host::host_reads(c.from, c.bytes, "by a copy to the host");
      else
        host::host_wrote(c.to, c.bytes);
      std::memcpy(c.to, c.from, c.bytes);
    }
  }
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

std::shared_ptr<std::byte> Device::allocate_host(size_t bytes) { return host_memory(bytes, false); }

void Device::start_copy(const CopyTicket& ticket, void* to, const void* from, size_t bytes, const CopyTicket& after) {
  state_->late[index_of(ticket.lane)].push_back({ticket, after, to, from, bytes, {}});
  if (state_->random() % 2 == 0) state_->run_until(ticket);
}
void Device::start_on_host(const CopyTicket& ticket, std::function<void()> run, const CopyTicket& after) {
  state_->late[index_of(ticket.lane)].push_back({ticket, after, nullptr, nullptr, 0, std::move(run)});
  if (state_->random() % 2 == 0) state_->run_until(ticket);
}
void Device::wait_for_copy(const CopyTicket& ticket) { state_->run_until(ticket); }

}  // namespace fp::cuda
