#include "cuda/runtime/device.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/parallel.h"
#include "cuda/runtime/available.h"
#include "cuda/runtime/buffer.h"
#include "cuda/runtime/stream.h"

namespace fp::cuda {
namespace {

// Two pinned buffers: the host fills or empties one while the device copies the other. Small copies to the device take
// a part of one each, so that the host waits once per buffer and not for each of them.
constexpr size_t kStagingBytes = size_t{16} << 20, kStagingAlignment = 256;
struct Staging {
  PinnedBuffer memory{kStagingBytes};
  size_t used = 0;
  Event done;  // after the device's last copy from or to it
};

// Copies on the host by all cores: one core copies 9 GB/s, a fifth of what the bus does (measured beside an H200).
void copy_on_host(std::byte* to, const std::byte* from, size_t bytes) {
  parallel_for(static_cast<int64_t>(bytes), int64_t{1} << 20, [&](int64_t first, int64_t last) {
    std::memcpy(to + first, from + first, static_cast<size_t>(last - first));
  });
}

// The stream of a lane, and marks after its last copies. A wait for a copy whose mark was reused waits for the oldest
// mark there is, which was set later.
class Lane {
 public:
  Stream stream() const { return stream_.get(); }
  void mark(int64_t number) {
    marks_[place(number)].record(stream());
    last_ = number;
  }
  void make_wait(Stream other, int64_t number) const {
    marks_[place(std::max(number, last_ - static_cast<int64_t>(kMarks) + 1))].make_wait(other);
  }

 private:
  static constexpr size_t kMarks = 64;
  static size_t place(int64_t number) { return static_cast<size_t>(number) % kMarks; }

  OwnedStream stream_;
  std::array<Event, kMarks> marks_;
  int64_t last_ = 0;
};

// Makes `index` the current device, on which later objects are created.
int select(int index) {
  const std::string reason = cuda_unavailable(index);
  if (!reason.empty()) throw ConfigError("run.device: cuda: " + reason);
  FP_CUDA(cudaSetDevice(index));
  return index;
}

DeviceFacts facts_of(int index) {
  cudaDeviceProp p{};
  FP_CUDA(cudaGetDeviceProperties(&p, index));
  std::string id;
  for (const char byte : p.uuid.bytes) id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return {index, p.name, p.major, p.minor, p.multiProcessorCount, p.sharedMemPerBlockOptin, p.totalGlobalMem, id};
}

}  // namespace

struct Device::State {
  explicit State(int index) : facts(facts_of(select(index))) {}

  // A thread other than the one that created the Device may have another current device.
  void enter() const { FP_CUDA(cudaSetDevice(facts.index)); }
  // Returns the buffer that was used less recently, once the device is done with it.
  Staging& next_staging() {
    turn = (turn + 1) % staging.size();
    staging[turn].done.synchronize();
    staging[turn].used = 0;
    return staging[turn];
  }
  // Returns a buffer that has space for `bytes` bytes at `used`.
  Staging& staging_for(size_t bytes) {
    return staging[turn].used + bytes <= kStagingBytes ? staging[turn] : next_staging();
  }

  DeviceFacts facts;
  OwnedStream compute;
  std::array<Lane, kLanes> lanes;
  std::array<Staging, 2> staging;
  size_t turn = 0;
  std::shared_ptr<std::byte> scratch;
  size_t scratch_bytes = 0;
};

Device::Device(int index) : state_(std::make_unique<State>(index)) {}
Device::~Device() = default;

const DeviceFacts& Device::facts() const { return state_->facts; }
size_t Device::free_bytes() const {
  state_->enter();
  size_t free = 0, total = 0;
  FP_CUDA(cudaMemGetInfo(&free, &total));
  return free;
}
Stream Device::compute() const { return state_->compute.get(); }

void Device::order(Stream first, Stream then) {
  state_->enter();
  Event mark;  // may be destroyed before it is reached: the driver keeps it until then
  mark.record(first);
  mark.make_wait(then);
}

std::shared_ptr<std::byte> Device::allocate(size_t bytes) {
  state_->enter();
  const auto buffer = std::make_shared<DeviceBuffer>(bytes);
  return {buffer, buffer->data()};
}

std::byte* Device::scratch(size_t bytes) {
  FP_CHECK(bytes <= state_->scratch_bytes, "{} bytes of scratch wanted, {} reserved", bytes, state_->scratch_bytes);
  return state_->scratch.get();
}

void Device::reserve_scratch(size_t bytes) {
  if (bytes <= state_->scratch_bytes) return;
  synchronize();
  state_->scratch.reset();  // freed first, so that old and new need not fit together
  state_->scratch_bytes = 0;
  state_->scratch = allocate(bytes);
  state_->scratch_bytes = bytes;
}

size_t Device::scratch_bytes() const { return state_->scratch_bytes; }

void Device::copy_in(void* device, const void* host, size_t bytes) {
  state_->enter();
  for (size_t at = 0; at < bytes; at += kStagingBytes) {
    const size_t count = std::min(kStagingBytes, bytes - at);
    Staging& piece = state_->staging_for(count);
    std::byte* const room = piece.memory.data() + piece.used;
    piece.used += (count + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
    copy_on_host(room, static_cast<const std::byte*>(host) + at, count);
    FP_CUDA(cudaMemcpyAsync(static_cast<std::byte*>(device) + at, room, count, cudaMemcpyHostToDevice, compute()));
    piece.done.record(compute());
  }
}

void Device::copy_out(void* host, const void* device, size_t bytes) {
  state_->enter();
  const Staging* arriving = nullptr;
  size_t arriving_at = 0, arriving_count = 0;
  const auto receive = [&] {
    if (arriving == nullptr) return;
    arriving->done.synchronize();
    copy_on_host(static_cast<std::byte*>(host) + arriving_at, arriving->memory.data(), arriving_count);
  };
  for (size_t at = 0; at < bytes; at += kStagingBytes) {
    const size_t count = std::min(kStagingBytes, bytes - at);
    Staging& piece = state_->next_staging();
    FP_CUDA(cudaMemcpyAsync(piece.memory.data(), static_cast<const std::byte*>(device) + at, count,
                            cudaMemcpyDeviceToHost, compute()));
    piece.done.record(compute());
    receive();
    arriving = &piece, arriving_at = at, arriving_count = count;
  }
  receive();
}

void Device::copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0) FP_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, compute()));
}

void Device::zero(void* device, size_t bytes) {
  if (bytes > 0) FP_CUDA(cudaMemsetAsync(device, 0, bytes, compute()));
}

void Device::synchronize() { FP_CUDA(cudaStreamSynchronize(compute())); }

std::shared_ptr<std::byte> Device::allocate_host(size_t bytes) {
  state_->enter();
  const auto buffer = std::make_shared<PinnedBuffer>(bytes);
  return {buffer, buffer->data()};
}

void Device::start_copy(const CopyTicket& ticket, void* to, const void* from, size_t bytes, const CopyTicket& after) {
  state_->enter();
  Lane& lane = state_->lanes[index_of(ticket.lane)];
  order(compute(), lane.stream());
  if (after.number > 0 && after.lane != ticket.lane)
    state_->lanes[index_of(after.lane)].make_wait(lane.stream(), after.number);
  const cudaMemcpyKind kind = ticket.lane == CopyLane::to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
  FP_CUDA(cudaMemcpyAsync(to, from, bytes, kind, lane.stream()));
  lane.mark(ticket.number);
}

void Device::start_on_host(const CopyTicket& ticket, std::function<void()> run, const CopyTicket& after) {
  state_->enter();
  Lane& lane = state_->lanes[index_of(ticket.lane)];
  if (after.number == 0) order(compute(), lane.stream());  // what it reads may still be computed
  if (after.number > 0 && after.lane != ticket.lane)
    state_->lanes[index_of(after.lane)].make_wait(lane.stream(), after.number);
  auto owned = std::make_unique<std::function<void()>>(std::move(run));
  const auto call = [](void* function) {
    const std::unique_ptr<std::function<void()>> f(static_cast<std::function<void()>*>(function));
    (*f)();
  };
  FP_CUDA(cudaLaunchHostFunc(lane.stream(), call, owned.get()));
  (void)owned.release();  // the call deletes it
  lane.mark(ticket.number);
}

void Device::wait_for_copy(const CopyTicket& ticket) {
  state_->enter();
  state_->lanes[index_of(ticket.lane)].make_wait(compute(), ticket.number);
}

}  // namespace fp::cuda
