// Dispatch on the storage type, the grain of parallel loops, and pieces of a scratch buffer.
#pragma once

#include <cstddef>

#include "base/parallel.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/kernels/simd.h"

namespace fp::cpu::FP_ISA {

// Calls f(T{}) with T = bf16 or float.
template <class F>
FP_INLINE void with_type(bool is_bf16, F&& f) {
  if (is_bf16)
    f(bf16{});
  else
    f(float{});
}

// Rows that a thread takes at a time: enough work to be worth dispatching.
FP_INLINE int64_t row_grain(int64_t cols) { return larger(1, 4096 / larger(cols, 1)); }

FP_INLINE int64_t blocks_of(int64_t n, int64_t block) { return (n + block - 1) / block; }

// Allocates 64-byte aligned pieces of a scratch buffer; with a null base it only counts the bytes.
struct Cutter {
  std::byte* base;
  size_t used = 0;
  template <class T>
  inline __attribute__((always_inline)) T* take(int64_t count) {
    T* p = base == nullptr ? nullptr : reinterpret_cast<T*>(base + used);
    used += (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return p;
  }
};

}  // namespace fp::cpu::FP_ISA
