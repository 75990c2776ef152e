// Checked memory of kernels under test. Every two bytes of device and shared memory have a shadow: whether they may be
// accessed, whether they were written, and which threads read and wrote them last. The kernel sources are compiled with
// -fsanitize=thread, whose calls before each access arrive here (layer/access.cpp); the sanitizer's own runtime is not
// used.
//
// A race is an access by another thread of the block since the last barrier (or __syncwarp, within a warp), or by
// another block of the same launch, where one of the two writes and they are not both atomic.
#pragma once

#include <cstddef>
#include <memory>

namespace fp::cuda::host {

constexpr size_t kSharedBytes = 227 * 1024;

// Allocates device memory: 256-byte aligned, unwritten, with forbidden memory around it. Freed with the last owner.
std::shared_ptr<std::byte> allocate(size_t bytes);

// Forbids, and allows again, accesses to bytes of a live buffer (guards of the tests).
void forbid(void* address, size_t bytes);
void allow(void* address, size_t bytes);
// Marks the bytes as never written.
void make_unwritten(void* address, size_t bytes);

// Report accesses of host code on behalf of the device: copies and matrix products.
void host_wrote(const void* address, size_t bytes);
void host_reads(const void* address, size_t bytes, const char* what);

// Reports an access of the running thread. `atomic` accesses do not race with each other.
enum class Access : unsigned char { read, write, atomic };
void touch(const void* address, size_t bytes, Access);

// Called by the execution layer.
struct Phases {
  unsigned launch_first = 0, block_first = 0, now = 0;  // numbers of intervals between barriers, increasing
  unsigned warp[32] = {};                               // __syncwarps of each warp in this block
};
extern Phases phases;
std::byte* shared_memory();
void fresh_shared();                            // before a block: all shared memory is forbidden
void open_shared(size_t offset, size_t bytes);  // allows accesses; the bytes are unwritten
bool is_stack(const void* address);
void set_stacks(const void* begin, const void* end);

}  // namespace fp::cuda::host
