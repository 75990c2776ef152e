// cp.async: copies 16 bytes from global to shared memory without passing through registers. A thread sees its own
// copies after wait_copies(), the other threads after a barrier that follows it. On the CPU the bytes are copied by
// wait_copies().
#pragma once

#include "cuda/device/platform.h"

namespace fp::cuda {

// Both addresses must be aligned to 16 bytes. Only the first `valid` bytes are read; the others become 0.
__device__ __forceinline__ void copy_async_16(void* shared, const void* global, int valid = 16) {
#ifdef FP_CUDA_HOST
  host::check_alignment(shared, 16);
  host::check_alignment(global, 16);
  host::defer_copy(shared, global, 16, static_cast<size_t>(valid));
#else
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(address), "l"(global), "r"(valid) : "memory");
#endif
}

// Ends the group of the copies issued since the last call.
__device__ __forceinline__ void commit_copies() {
#ifdef FP_CUDA_HOST
  host::commit_copies();
#else
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}

// Waits until at most the `Left` youngest groups of this thread are in flight.
template <int Left>
__device__ __forceinline__ void wait_copies() {
#ifdef FP_CUDA_HOST
  host::wait_copies(Left);
#else
  asm volatile("cp.async.wait_group %0;\n" ::"n"(Left) : "memory");
#endif
}

}  // namespace fp::cuda
