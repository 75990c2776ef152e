// The functions that -fsanitize=thread calls before every access of the kernel sources. These are the names of the
// sanitizer's runtime; its own library is not linked.
#include <cstddef>

#include "cuda_host/memory.h"

using fp::cuda::host::Access;
using fp::cuda::host::touch;

#define FP_ACCESS(bytes)                                                                 \
  void __tsan_read##bytes(void* p) { touch(p, bytes, Access::read); }                    \
  void __tsan_write##bytes(void* p) { touch(p, bytes, Access::write); }                  \
  void __tsan_unaligned_read##bytes(void* p) { touch(p, bytes, Access::read); }          \
  void __tsan_unaligned_write##bytes(void* p) { touch(p, bytes, Access::write); }        \
  void __tsan_volatile_read##bytes(void* p) { touch(p, bytes, Access::read); }           \
  void __tsan_volatile_write##bytes(void* p) { touch(p, bytes, Access::write); }         \
  void __tsan_unaligned_volatile_read##bytes(void* p) { touch(p, bytes, Access::read); } \
  void __tsan_unaligned_volatile_write##bytes(void* p) { touch(p, bytes, Access::write); }

// Atomics of the host code around the kernels (reference counts, guards of statics).
#define FP_ATOMIC(bits, type)                                                                                   \
  type __tsan_atomic##bits##_load(const volatile type* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); } \
  void __tsan_atomic##bits##_store(volatile type* p, type v, int) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); } \
  type __tsan_atomic##bits##_exchange(volatile type* p, type v, int) {                                          \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                                         \
  }                                                                                                             \
  type __tsan_atomic##bits##_fetch_add(volatile type* p, type v, int) {                                         \
    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                                                          \
  }                                                                                                             \
  type __tsan_atomic##bits##_fetch_sub(volatile type* p, type v, int) {                                         \
    return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);                                                          \
  }                                                                                                             \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile type* p, type* expected, type v, int, int) {       \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);              \
  }                                                                                                             \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile type* p, type* expected, type v, int, int) {         \
    return __atomic_compare_exchange_n(p, expected, v, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);               \
  }

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* p, size_t bytes) { touch(p, bytes, Access::read); }
void __tsan_write_range(void* p, size_t bytes) { touch(p, bytes, Access::write); }
FP_ACCESS(1)
FP_ACCESS(2)
FP_ACCESS(4)
FP_ACCESS(8)
FP_ACCESS(16)
FP_ATOMIC(8, unsigned char)
FP_ATOMIC(16, unsigned short)
FP_ATOMIC(32, unsigned)
FP_ATOMIC(64, unsigned long)
}
