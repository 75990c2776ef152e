// The execution layer: runs a kernel on the CPU the way a GPU would, one block at a time, every thread a fiber.
//
// Threads are resumed in random order, so a result that depends on the order differs from run to run. Errors of a
// kernel are collected as text (take_problems): barriers and warp operations that not all threads reach, accesses
// outside live buffers, reads of memory that nothing wrote, races between threads (memory.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fp::cuda::host {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr Dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr size_t count() const { return size_t{x} * y * z; }
};

// Indices of the running thread; null outside of a kernel.
struct Place {
  Dim3 thread{0, 0, 0}, block{0, 0, 0}, block_size, grid_size;
  unsigned linear = 0;  // within the block
  unsigned lane() const { return linear % 32; }
  unsigned warp() const { return linear / 32; }
};
extern const Place* current;

// The name of a kernel instance that this program can launch, registered before main().
struct KernelName {
  explicit KernelName(std::string signature);
  std::string name;
};
// Names of the instances registered, and of those launched so far.
const std::vector<std::string>& registered_kernels();
std::vector<std::string> launched_kernels();

// Runs `body` once for every thread of the grid, block after block in random order.
void launch(const KernelName&, Dim3 grid, Dim3 block, size_t dynamic_shared, const std::function<void()>& body);

// Seeds the random order of blocks and threads. The environment variable FP_CUDA_HOST_SEED sets it, too.
void set_seed(uint64_t seed);

// ---- called by kernels through language.h and cuda/device -----------------------------------------------------------
// `site` is the place in the source: all threads must reach the same barrier.
void barrier(const char* site);

// Arguments of the lanes of a warp operation; `combine` runs once, when all lanes of the mask have arrived.
struct Lanes {
  void* argument[32] = {};
  uint32_t mask = 0;
};
using Combine = void (*)(Lanes&);
void warp_operation(uint32_t mask, const char* site, void* argument, Combine);
// The same, and orders memory between the lanes (__syncwarp).
void warp_barrier(uint32_t mask, const char* site);

// Shared memory of the running block. A static array is identified by the address `key`.
void* static_shared(const void* key, size_t bytes, size_t alignment);
void* dynamic_shared();

// Reports an access of `bytes` bytes that is not aligned to them: a GPU faults on it.
inline void check_alignment(const void* address, size_t bytes);
// Adds a problem, prefixed with kernel, block and thread. One of each kind is kept per launch.
void complain(const std::string& kind, const std::string& detail);
// Returns the problems since the last call; empty: none.
std::string take_problems();

inline void check_alignment(const void* address, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0)
    complain("misaligned access", "an address is not a multiple of its bytes");
}

// Asynchronous copies of the running thread: cuda/device/async_copy.h.
void defer_copy(void* to, const void* from, size_t bytes, size_t valid_bytes);
void commit_copies();
void wait_copies(int groups_left);

}  // namespace fp::cuda::host
