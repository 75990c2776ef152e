// One GPU as the ops use it: streams, memory and what the chip is. Implemented twice behind this header: by the CUDA
// runtime (device.cpp here) and on the CPU (tests/cuda_host/device.cpp), so that all of cuda/ops runs under test.
//
// Everything is issued on the compute stream, in order, and nothing waits for the device except copy_out() and
// synchronize() (and copy_in() of more than a few MiB). A failed call throws DeviceError with the call, rank and
// device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cuda/device/platform.h"

namespace fp::cuda {

// What kernels and the choice between implementations need to know of the chip.
struct DeviceFacts {
  int index = 0;
  std::string name;
  int compute_major = 0, compute_minor = 0;
  int multiprocessors = 1;
  size_t shared_per_block = 48 * 1024;  // bytes a block may have after opting in
  size_t memory_bytes = 0;              // when the Device was made
  std::string id;                       // its UUID
};

class Device {
 public:
  // Device `index` of those visible to this process. ConfigError when there is none such, saying what is missing.
  explicit Device(int index);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceFacts& facts() const;
  size_t free_bytes() const;  // now, of the whole device
  Stream compute() const;
  // For copies and for communication beside the computation; order() says what must come before what.
  Stream copying() const;
  Stream communication() const;
  // What is issued on `then` from now on waits, on the device, for what was issued on `first` so far.
  void order(Stream first, Stream then);

  // Device memory, 256-byte aligned, given back with the last owner. ConfigError when there is not enough, with what is
  // free. Not for use inside a step.
  std::shared_ptr<std::byte> allocate(size_t bytes);

  // Scratch of the call being issued: valid until the next call of scratch(), which reuses the same bytes in stream
  // order. Never allocates: InternalError when more was asked for than reserve_scratch() has set aside.
  std::byte* scratch(size_t bytes);
  void reserve_scratch(size_t bytes);
  size_t scratch_bytes() const;

  // `host` is free to change when copy_in returns (staged through pinned memory); copy_out blocks until the bytes are
  // there.
  void copy_in(void* device, const void* host, size_t bytes);
  void copy_out(void* host, const void* device, size_t bytes);
  void copy(void* to, const void* from, size_t bytes);
  void zero(void* device, size_t bytes);
  void synchronize();

  struct State;  // of the implementation
  State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace fp::cuda
