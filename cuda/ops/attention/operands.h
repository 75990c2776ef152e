// The arguments of fptrain's attention kernels, passed by value, and their preparation.
#pragma once

#include "cuda/device/math.h"
#include "cuda/device/vector.h"
#include "cuda/ops/attention/attention.h"
#include "cuda/ops/attention/drops.h"
#include "cuda/ops/attention/mask.h"

namespace fp::cuda {

template <class T>
struct Operands {
  const T *q = nullptr, *k = nullptr, *v = nullptr;
  T* o = nullptr;  // [B,Tq,H,d]
  float* lse = nullptr;
  // Backward only. delta[B,H,Tq] = sum of d_o * o over a head, which is the mean of dp under p.
  const T* d_o = nullptr;
  T *dq = nullptr, *dk = nullptr, *dv = nullptr;
  bool add_dq = false, add_dkv = false;
  float* delta = nullptr;

  int batch = 0, heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 1;
  bool aligned = false;  // every row of every head begins at a multiple of 16 bytes
  Mask mask;
  AttentionDropout drops;

  // Stride between tokens, in elements.
  __device__ int q_step() const { return heads * head_dim; }
  __device__ int k_step() const { return kv_heads * head_dim; }
  __device__ int64_t at_query(int sample, int i, int head) const {
    return ((int64_t{sample} * mask.queries + i) * heads + head) * head_dim;
  }
  __device__ int64_t at_key(int sample, int j, int kv_head) const {
    return ((int64_t{sample} * mask.keys + j) * kv_heads + kv_head) * head_dim;
  }
  __device__ int64_t at_row(int sample, int i, int head) const {
    return (int64_t{sample} * heads + head) * mask.queries + i;
  }
};

// Returns lse in base 2, for 2^(score - lse). It is finite also where no key is seen, so that hidden scores of
// -infinity give 0.
__device__ __forceinline__ float base2(float lse) { return lse == -INFINITY ? 0.0f : lse * kLog2E; }

// The queries that a block owns: `rows` queries of one head of one sample. The last queries have the most work under a
// causal mask, so they start first.
struct QueryOwner {
  int sample, head, kv_head, first;
  template <class T>
  __device__ __forceinline__ QueryOwner(const Operands<T>& a, int rows) {
    const int heads = a.batch * a.heads, at = static_cast<int>(blockIdx.x);
    sample = at % heads / a.heads, head = at % a.heads, kv_head = head / (a.heads / a.kv_heads);
    first = (static_cast<int>(gridDim.x) - 1 - at) / heads * rows;
  }
  template <class T>
  static unsigned blocks(const Operands<T>& a, int rows) {
    return static_cast<unsigned>((a.mask.queries + rows - 1) / rows * a.batch * a.heads);
  }
};

// The keys that a block owns: `rows` keys of one kv head of one sample, and one of `parts` parts of the work on them.
struct KeyOwner {
  int sample, kv_head, first, part;
  template <class T>
  __device__ __forceinline__ KeyOwner(const Operands<T>& a, int rows, int parts) {
    const int heads = a.batch * a.kv_heads, at = static_cast<int>(blockIdx.x) / parts;
    part = static_cast<int>(blockIdx.x) % parts;
    sample = at % heads / a.kv_heads, kv_head = at % a.kv_heads, first = at / heads * rows;
  }
  template <class T>
  static unsigned blocks(const Operands<T>& a, int rows, int parts) {
    return static_cast<unsigned>((a.mask.keys + rows - 1) / rows * a.batch * a.kv_heads * parts);
  }
};

// Returns the operands of a call. Launches the kernels that fill its scratch: bounds of the document starts and,
// backward, delta.
template <class T>
Operands<T> prepare(Device&, const AttentionCall&, bool backward, std::byte* scratch);
// Returns the bytes of that scratch.
size_t prepared_bytes(const AttentionCall&, bool backward);

}  // namespace fp::cuda
