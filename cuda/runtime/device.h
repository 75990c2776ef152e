// Device: one GPU as the ops use it, with streams, memory and properties. It has two implementations, on the CUDA
// runtime (device.cpp here) and on the CPU (tests/cuda_host/layer/device.cpp), so that all of cuda/ops runs under test.
//
// Everything is issued on the compute stream, in order, but for the copies of start_copy(). Only copy_out() and
// synchronize() wait for the device, and copy_in() of more than a few MiB. A failed call throws DeviceError with the
// call, rank and device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cuda/device/platform.h"
#include "ops/copies.h"

namespace fp::cuda {

// Properties of a GPU that kernels and the choice between implementations depend on.
struct DeviceFacts {
  int index = 0;
  std::string name;
  int compute_major = 0, compute_minor = 0;
  int multiprocessors = 1;
  size_t shared_per_block = 48 * 1024;  // bytes a block may have after opting in
  size_t memory_bytes = 0;              // total, when the Device was created
  std::string id;                       // its UUID
};

class Device {
 public:
  // Opens device `index` of those visible to this process. Throws ConfigError that says what is missing when there is
  // no such device.
  explicit Device(int index);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceFacts& facts() const;
  size_t free_bytes() const;  // of the whole device, now
  Stream compute() const;
  // Makes work issued on `then` from now on wait, on the device, for the work issued on `first` so far.
  void order(Stream first, Stream then);

  // Allocates device memory, 256-byte aligned and freed with its last owner. Throws ConfigError that names the free
  // memory when there is not enough. Not for use inside a step.
  std::shared_ptr<std::byte> allocate(size_t bytes);

  // Returns scratch for the call being issued, valid until the next call of scratch(), which reuses the same bytes in
  // stream order. Never allocates: throws InternalError when `bytes` is more than reserve_scratch() has reserved.
  std::byte* scratch(size_t bytes);
  void reserve_scratch(size_t bytes);
  size_t scratch_bytes() const;

  // `host` may be changed when copy_in returns (it is copied through pinned memory); copy_out blocks until the bytes
  // have arrived.
  void copy_in(void* device, const void* host, size_t bytes);
  void copy_out(void* host, const void* device, size_t bytes);
  void copy(void* to, const void* from, size_t bytes);
  void zero(void* device, size_t bytes);
  void synchronize();

  // Allocates pinned host memory, freed with its last owner. Throws ConfigError when there is not enough.
  std::shared_ptr<std::byte> allocate_host(size_t bytes);
  // Starts a copy in its lane, after what the compute stream has been given so far and after the copy `after`. `host`
  // memory is that of allocate_host().
  void start_copy(const CopyTicket&, void* to, const void* from, size_t bytes, const CopyTicket& after);
  // The same for a function that a thread of the host runs; it waits for the compute stream only without `after`.
  void start_on_host(const CopyTicket&, std::function<void()> run, const CopyTicket& after);
  // Makes the compute stream wait for a copy or a function that was started.
  void wait_for_copy(const CopyTicket&);

  struct State;  // of the implementation
  State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace fp::cuda
